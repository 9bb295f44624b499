"""Arrays that wait by index (``aftercorr``): which of their tasks may start, and which never will.

The row of such an array has two sets of its pending indices: ``eligible``, whose counterparts have completed, and
``unmet``, whose counterparts have ended in another way. Both grow with the ends of counterparts. The cost of an end
depends on the number of ranges of these sets, not on the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from rankd.core.admission.dependency import awaited
from rankd.core.change.job_change import Change
from rankd.core.model.index_set import EMPTY, IndexSet, common, count, each, of, read, union, without
from rankd.core.model.index_set import written as written_set
from rankd.core.model.job import BY_INDEX, ENDED_BADLY, FINAL_STATES, Dependency, Event, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of, written
from rankd.store.record.array import cancel_rests, end_arrays
from rankd.store.record.dependency import blocked_jobs, dependencies_of, reasons_of, show_reason
from rankd.store.record.job import apply_changes
from rankd.store.schema.table import arrays, jobs

ACTOR = "prioritizer"
FEW = 5_000
"""Up to this many tasks are looked up one by one; for more, all tasks of the awaited array are read."""

_AWAITED = (
    select(jobs.c.id, jobs.c.state, arrays.c.cancelled)
    .join_from(jobs, arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.id.in_(values_of("jobs")))
)
_ENDED = select(jobs.c.array_task, jobs.c.state).where(
    jobs.c.array_job == bindparam("array"),
    jobs.c.state.in_(written(State.COMPLETED, *sorted(ENDED_BADLY))),
)
_ENDED_OF = _ENDED.where(jobs.c.array_task.in_(values_of("tasks")))
_WAITING = (
    select(
        jobs.c.revision,
        jobs.c.settled,
        jobs.c.blocked_by,
        jobs.c.held,
        jobs.c.depends_on,
        jobs.c.array,
        arrays.c.eligible,
        arrays.c.unmet,
    )
    .join_from(jobs, arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.id == bindparam("job"), jobs.c.state == State.PENDING.value, arrays.c.n_eligible.is_not(None))
)
_MATCHED = (
    update(arrays)
    .where(arrays.c.job_id == bindparam("of"))
    .values({name: bindparam(name) for name in ("eligible", "n_eligible", "unmet", "n_unmet")})
)
_CANCELLED = (
    update(arrays)
    .where(arrays.c.job_id == bindparam("of"))
    .values(
        n_pending=arrays.c.n_pending - bindparam("number"),
        n_cancelled=arrays.c.n_cancelled + bindparam("number"),
        cancelled=bindparam("indices"),
        ended_at=bindparam("at"),
    )
)
_WHICH_CANCELLED = select(arrays.c.cancelled).where(arrays.c.job_id == bindparam("of"))
_AGAIN = update(arrays).where(arrays.c.job_id.in_(values_of("jobs"))).values(eligible=None, unmet=None)


class Outcome(NamedTuple):
    """The ends of counterparts: the indices of those that completed, and of those that ended otherwise."""

    completed: IndexSet
    unmet: IndexSet


class Waiting(NamedTuple):
    """A pending array that waits by index; ``eligible`` is None as long as no counterpart was looked up."""

    revision: int
    settled: int | None
    blocked_by: str | None
    held: bool
    depends_on: str | None
    array: str
    eligible: str | None
    unmet: str | None

    @property
    def awaited(self) -> list[int]:
        """The arrays of its counterparts."""
        return counterparts(dependencies_of(self.depends_on))


def counterparts(dependencies: Iterable[Dependency]) -> list[int]:
    """The arrays that these dependencies await by index."""
    names = (awaited(one) for one in dependencies if one.type == BY_INDEX)
    return [name for name in names if isinstance(name, int)]


def waiting_array(connection: Connection, job: int) -> Waiting | None:
    """A pending array that waits by index; None for any other job."""
    row = connection.execute(_WAITING, {"job": job}).one_or_none()
    return None if row is None else Waiting._make(row)


def outcome_of(connection: Connection, awaited_arrays: Sequence[int], wanted: IndexSet) -> Outcome:
    """The ends of the tasks with these indices: completed in each of the arrays, or ended otherwise in any of them."""
    rows = {row[0]: row for row in connection.execute(_AWAITED, {"jobs": awaited_arrays})}
    completed, unmet = wanted, EMPTY
    for array in awaited_arrays:
        if array not in rows:
            return Outcome(EMPTY, wanted)
        if rows[array].state == State.COMPLETED:
            continue
        found = _ends(connection, array, wanted)
        completed = common(completed, found.completed)
        if State(rows[array].state) in FINAL_STATES:
            unmet = union(unmet, without(wanted, found.completed))
        unmet = union(unmet, found.unmet, common(read(rows[array].cancelled), wanted))
    return Outcome(without(completed, unmet), unmet)


def _ends(connection: Connection, array: int, wanted: IndexSet) -> Outcome:
    if count(wanted) <= FEW:
        rows = connection.execute(_ENDED_OF, {"array": array, "tasks": each(wanted)}).all()
    else:
        rows = connection.execute(_ENDED, {"array": array}).all()
    completed = of(task for task, state in rows if state == State.COMPLETED.value)
    others = of(task for task, state in rows if state != State.COMPLETED.value)
    return Outcome(common(completed, wanted), common(others, wanted))


def match_tasks(
    connection: Connection,
    job: int,
    found: Outcome,
    now: float,
    *,
    expected: Sequence[int],
    is_all: bool,
    cancels: bool,
) -> bool:
    """Note the ends of counterparts of an array's tasks; returns whether the array has changed.

    Args:
        connection: in a writing transaction.
        job: the array that waits.
        found: the ends.
        now: UTC seconds.
        expected: the arrays in which the ends were looked up; if the array waits for others by now, nothing happens.
        is_all: whether the counterparts of all its tasks were looked up. This comes first.
        cancels: whether tasks that can never start are cancelled.
    """
    waiting = waiting_array(connection, job)
    if waiting is None or waiting.awaited != list(expected) or (waiting.eligible is None and not is_all):
        return False
    pending = read(waiting.array)
    eligible, unmet = read(waiting.eligible), read(waiting.unmet)
    new = without(common(pending, found.completed), eligible)
    eligible = union(eligible, new)
    unmet = without(union(unmet, common(pending, found.unmet)), eligible)
    gone = unmet if cancels else EMPTY
    unmet = EMPTY if cancels else unmet
    _store(connection, job, eligible, unmet)
    if gone and not without(pending, gone):
        return _cancel_all(connection, job, now)
    return _tell(connection, job, waiting, new, gone, now)


def _store(connection: Connection, job: int, eligible: IndexSet, unmet: IndexSet) -> None:
    values = {
        "eligible": written_set(eligible),
        "n_eligible": count(eligible),
        "unmet": written_set(unmet),
        "n_unmet": count(unmet),
    }
    connection.execute(_MATCHED, {"of": job, **values})


def _cancel_all(connection: Connection, job: int, now: float) -> bool:
    columns = {"ended_at": now, "eligible_at": None}
    change = Change(job=job, state=State.PENDING, event=Event.CANCEL, actor=ACTOR, cause="dependency", columns=columns)
    apply_changes(connection, cancel_rests(connection, [change], now), now)
    end_arrays(connection, [job], now)
    return True


def _tell(connection: Connection, job: int, waiting: Waiting, new: IndexSet, gone: IndexSet, now: float) -> bool:
    """Record what may start and what is cancelled as an event, and let the array be ranked if it was not."""
    changes = []
    if gone or (new and waiting.blocked_by is None):
        settled = waiting.revision if waiting.settled is None else waiting.settled
        changes.append(_match(job, waiting, new if waiting.blocked_by is None else EMPTY, gone, settled))
    if gone:
        before = read(connection.execute(_WHICH_CANCELLED, {"of": job}).scalar_one())
        values = {"of": job, "number": count(gone), "indices": written_set(union(before, gone)), "at": now}
        connection.execute(_CANCELLED, values)
    if waiting.blocked_by is not None:
        changes += _released(connection, job, waiting, now)
    apply_changes(connection, changes, now)
    return bool(changes)


def _match(job: int, waiting: Waiting, new: IndexSet, gone: IndexSet, settled: int) -> Change:
    parts = {"eligible": new, "cancelled": gone}
    return Change(
        job=job,
        state=State.PENDING,
        event=Event.MATCH,
        actor=ACTOR,
        cause="dependency" if gone else None,
        detail={name: written_set(part) for name, part in parts.items() if part},
        columns={"array": written_set(without(read(waiting.array), gone)), "settled": settled},
    )


def _released(connection: Connection, job: int, waiting: Waiting, now: float) -> list[Change]:
    reason = reasons_of(connection, blocked_jobs(connection, [job]), now).get(job)
    if reason is not None:
        if reason != waiting.blocked_by:
            show_reason(connection, [job], reason, now)
        return []
    columns = {"blocked_by": None, "eligible_at": None if waiting.held else now}
    return [Change(job=job, state=State.PENDING, event=Event.ELIGIBLE, actor=ACTOR, columns=columns)]


def match_again(connection: Connection, changed: Mapping[int, Sequence[Dependency]]) -> None:
    """Forget what is known of the counterparts of these arrays, because they wait for other ones now."""
    waits = {job for job, dependencies in changed.items() if counterparts(dependencies)}
    connection.execute(_AGAIN.values(n_eligible=0, n_unmet=0), {"jobs": waits})
    connection.execute(_AGAIN.values(n_eligible=None, n_unmet=None), {"jobs": changed.keys() - waits})
