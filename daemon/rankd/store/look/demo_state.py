"""The figures that ``rankd demo`` shows and checks: counts by state and by user, and how often each job started."""

from __future__ import annotations

from typing import NamedTuple

from rankd.store.engine.reading import Reader, fetch

_UNFINISHED = "SELECT 1 FROM job WHERE ended_at IS NULL LIMIT 1"

_STATES = "SELECT state, count(*) AS jobs FROM job GROUP BY state"

_RUNNING = """
SELECT "user", count(*) AS jobs, sum(cores) AS cores FROM job WHERE state IN ('allocated', 'running')
GROUP BY "user" ORDER BY "user\""""

_WAITS = """
SELECT "user", count(*) AS jobs, sum(cores * (ended_at - started_at)) AS core_seconds,
    avg(started_at - submitted_at) AS mean_s, max(started_at - submitted_at) AS longest_s
FROM job WHERE started_at IS NOT NULL GROUP BY "user" ORDER BY "user\""""

_GENERATIONS = "SELECT count(*) AS made, max(jobs) AS jobs FROM generation"

_STARTS = """
SELECT j.id, j.state, (SELECT count(*) FROM job_event e WHERE e.job_id = j.id AND e.event = 'start') AS starts
FROM job j"""


class UserRunning(NamedTuple):
    """A user's present allocated and running jobs, and their cores."""

    user: str
    jobs: int
    cores: float


class UserWaits(NamedTuple):
    """The usage and the waiting times, in seconds, of a user's jobs that started."""

    user: str
    jobs: int
    core_seconds: float
    mean_s: float
    longest_s: float


class GenerationCount(NamedTuple):
    """How many generations there are, and how many jobs the largest one ranks (None if there is none)."""

    made: int
    jobs: int | None


class JobStarts(NamedTuple):
    """A job, and how often it started."""

    id: int
    state: str
    starts: int


def see_newest(connection: Reader) -> None:
    """End the read transaction, which sees one state of the database, and begin a new one."""
    cursor = connection.cursor()
    cursor.execute("ROLLBACK")
    cursor.execute("BEGIN")
    cursor.close()


def have_all_ended(connection: Reader) -> bool:
    """Whether every job has ended."""
    return not fetch(connection, _UNFINISHED)


def jobs_by_state(connection: Reader) -> dict[str, int]:
    """The number of jobs in each state; states without jobs are left out."""
    return {row["state"]: row["jobs"] for row in fetch(connection, _STATES)}


def running_by_user(connection: Reader) -> list[UserRunning]:
    """The running jobs of each user, by name."""
    return [UserRunning(**row) for row in fetch(connection, _RUNNING)]


def waits_by_user(connection: Reader) -> list[UserWaits]:
    """The usage and waiting times of each user, by name."""
    return [UserWaits(**row) for row in fetch(connection, _WAITS)]


def generation_count(connection: Reader) -> GenerationCount:
    """The count of the generations whose rows are still stored."""
    [row] = fetch(connection, _GENERATIONS)
    return GenerationCount(**row)


def starts_of_jobs(connection: Reader) -> list[JobStarts]:
    """All jobs, with the number of their starts."""
    return [JobStarts(**row) for row in fetch(connection, _STARTS)]
