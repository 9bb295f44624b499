"""When a job that waits for others, or for a time, becomes eligible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES, Dependency, JobRequest, State

DEPENDENCY = "dependency"
BEGIN_TIME = "begin time"


class Progress(msgspec.Struct, frozen=True):
    """The progress of a job that others wait for."""

    state: State
    has_begun: bool


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job that is not eligible for a reason other than a hold."""

    job: int
    held: bool
    begin_at: float | None
    depends_on: tuple[Dependency, ...] = ()


def named_jobs(dependencies: Iterable[Dependency]) -> Iterator[int]:
    """The ids of the jobs in these dependencies."""
    return (one.job for one in dependencies if isinstance(one.job, int))


def check_known(dependencies: Iterable[Dependency], known: Collection[int]) -> None:
    """Check that all jobs in these dependencies exist.

    Raises:
        Refused: ``unknown_dependency``, with the first ids that do not exist.
    """
    unknown = [str(job) for job in named_jobs(dependencies) if job not in known]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        message = (
            f"depends_on names job {', '.join(unknown[:5])}{more}, which does not exist; "
            "submit that job first, and name the id that it got"
        )
        raise Refused("unknown_dependency", message, "depends_on", status=404)


def blocked_by(blocked: Blocked, progress: Mapping[int, Progress], now: float) -> str | None:
    """Why the job is still not eligible; None once it is."""
    if not all(_met(dependency, progress) for dependency in blocked.depends_on):
        return DEPENDENCY
    if blocked.begin_at is not None and blocked.begin_at > now:
        return BEGIN_TIME
    return None


def blocked_at_submission(request: JobRequest, now: float) -> str | None:
    """Why a new job is not eligible yet; None if it is.

    A job with dependencies is always blocked here. They are looked up afterwards.
    """
    if request.depends_on:
        return DEPENDENCY
    return BEGIN_TIME if request.begin_at is not None and request.begin_at > now else None


def _met(dependency: Dependency, progress: Mapping[int, Progress]) -> bool:
    """Whether the dependency is met; it is not if the job is unknown."""
    if not isinstance(dependency.job, int) or dependency.job not in progress:
        return False
    other = progress[dependency.job]
    match dependency.type:
        case "afterok":
            return other.state is State.COMPLETED
        case "afternotok":
            return other.state in FINAL_STATES and other.state is not State.COMPLETED
        case "afterany":
            return other.state in FINAL_STATES
        case "after":
            return other.has_begun or other.state in FINAL_STATES
