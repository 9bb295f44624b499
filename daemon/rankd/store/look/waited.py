"""What jobs waited for, in parts that add up to their waiting times: those of a user, and one that still waits.

SQL is text: it reads the newest jobs of one user by the index of users, and the kinds of one job by that of shapes.
"""

from __future__ import annotations

from rankd.core.model.job import State
from rankd.core.model.wait_part import COLUMNS, Key, Kind, Spell, WaitCause, Waiting, counted
from rankd.store.engine.reading import Reader, fetch

NEWEST = 500
_SQL = f"""SELECT {", ".join(COLUMNS.values())} FROM jobs
    WHERE "user" = ? AND waited_s IS NOT NULL ORDER BY id DESC LIMIT ?"""


def waited_of(connection: Reader, user: str) -> tuple[int, dict[WaitCause, float]]:
    """The number of the user's newest jobs that have started or ended, at most :data:`NEWEST`; seconds by cause."""
    rows = fetch(connection, _SQL, [user, NEWEST])
    return len(rows), {cause: sum(row[name] or 0.0 for row in rows) for cause, name in COLUMNS.items()}


_OF_ONE = f"""SELECT j.state, j.held, j.urgency, j.blocked_by, coalesce(j.array_limit, a.array_limit) AS array_limit,
    j.application_id, j.submitted_at, j.waited_until, j.queue_id, j.shape, j.time_limit_s, j."user",
    {", ".join(f"j.{name}" for name in COLUMNS.values())}
    FROM jobs j LEFT JOIN jobs a ON a.id = j.array_job
    WHERE j.id = ? AND j.waited_s IS NULL AND j.state IN ('pending', 'allocated')"""
_SPELLS = """SELECT queue_id, shape, time_limit_s, "user", application_id, since, cause FROM reason_spells
    WHERE shape = ? AND queue_id IN (0, ?) ORDER BY since"""


def waited_so_far(connection: Reader, job: int, now: float) -> dict[str, float]:
    """The parts of the time that a job has waited for its first start up to now, by column; empty if it does not."""
    found = fetch(connection, _OF_ONE, [job])
    if not found:
        return {}
    [row] = found
    kind = Kind(row["queue_id"], row["shape"], row["time_limit_s"], row["user"], row["application_id"])
    histories: dict[Key, list[Spell]] = {}
    for queue, shape, limit, user, application, since, cause in map(
        dict.values, fetch(connection, _SPELLS, [kind.shape, kind.queue])
    ):
        spell = Spell(since, WaitCause(cause) if cause else None)
        histories.setdefault((queue, shape, limit, user, application), []).append(spell)
    waiting = Waiting(
        state=State(row["state"]),
        held=bool(row["held"]),
        urgency=row["urgency"],
        blocked_by=row["blocked_by"],
        limited=row["array_limit"] is not None or row["application_id"] is not None,
        until=row["submitted_at"] if row["waited_until"] is None else row["waited_until"],
        parts={cause: row[name] for cause, name in COLUMNS.items()},
    )
    own = [histories[key] for key in kind.keys() if key in histories]  # noqa: SIM118 - not a mapping
    parts = counted(waiting, own, now).parts
    return {name: parts.get(cause, 0.0) for cause, name in COLUMNS.items()}
