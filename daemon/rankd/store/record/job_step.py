"""Steps of jobs: numbered when they are granted, ended by reports of their nodes, at the latest with their allocation.

An allocation has the records of its newest :data:`.step.MOST_STEPS` steps, of older ones that still run, and of up to
:data:`TRIM_EVERY` more. Numbers are dense from 0 in each allocation: the newest record is never deleted, so it has the
last number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update

from rankd.core.change.job_change import Value
from rankd.core.errors import Refused
from rankd.core.model.believable import LARGEST_SIGNAL, LARGEST_STATUS, believable_number, believable_time
from rankd.core.session.step import CAUSES, JOB_ENDED, MOST_STEPS, StepEnd, StepState, begun, ended
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, number_of, text_of, values_of
from rankd.store.engine.plan import in_order
from rankd.store.engine.prepared import run_each
from rankd.store.engine.word import VALUES
from rankd.store.schema.table import allocation_nodes, allocations, job_steps

TRIM_EVERY = 100
"""Only each step with such a number deletes old records, since it reads those of all older steps that run."""

_STEP, _PART = job_steps.c, allocation_nodes.c
_IS_OPEN = select(allocations.c.id).where(allocations.c.id == bindparam("allocation"), allocations.c.ended_at.is_(None))
_OF_SESSION = select(_STEP.number).where(
    _STEP.allocation_id == bindparam("allocation"), _STEP.session == bindparam("session")
)
_LAST = select(func.max(_STEP.number)).where(_STEP.allocation_id == bindparam("allocation"))
_ONE = select(job_steps).where(_STEP.allocation_id == bindparam("allocation"), _STEP.number == bindparam("number"))
_WANTED = listed("wanted", VALUES)
_OWN = select(_PART.allocation_id, _PART.node).select_from(
    in_order(
        _WANTED,
        allocation_nodes,
        and_(_PART.allocation_id == number_of(_WANTED.c.value, "$[0]"), _PART.node == text_of(_WANTED.c.value, "$[1]")),
    )
)
_MAY_END = (
    select(job_steps)
    .select_from(
        in_order(
            _WANTED,
            job_steps,
            and_(
                _STEP.allocation_id == number_of(_WANTED.c.value, "$[0]"),
                _STEP.number == number_of(_WANTED.c.value, "$[1]"),
            ),
        )
    )
    .where(or_(_STEP.ended_at.is_(None), and_(_STEP.unstarted != "0", _STEP.cause.is_distinct_from(JOB_ENDED))))
)
"""The steps of (allocation, number) whose tasks may still end. Each is found by its key, however many run.

In one statement with ``_OWN``, PostgreSQL reads all steps of the allocation for each end, if most have few.
"""
_NEW = insert(job_steps)
_CHANGED = (
    update(job_steps)
    .where(_STEP.allocation_id == bindparam("allocation"), _STEP.number == bindparam("of_number"))
    .values(
        ended_at=bindparam("at"),
        exit_status=bindparam("status"),
        signal=bindparam("by_signal"),
        cause=bindparam("why"),
        begun=bindparam("tasks_begun"),
        ended=bindparam("tasks_ended"),
        unstarted=bindparam("tasks_unstarted"),
        places=bindparam("at_places"),
        tasks=bindparam("n_tasks"),
        nodes=bindparam("n_nodes"),
    )
)
_TRIM = delete(job_steps).where(
    _STEP.allocation_id == bindparam("allocation"), _STEP.number <= bindparam("number"), _STEP.ended_at.is_not(None)
)
_ENDED_AT = (
    select(allocations.c.ended_at).where(allocations.c.id == _STEP.allocation_id).correlate(job_steps).scalar_subquery()
)
_WITH_JOB = (
    update(job_steps)
    .where(_STEP.allocation_id.in_(values_of("ids")), _STEP.ended_at.is_(None))
    .values(ended_at=_ENDED_AT, cause=JOB_ENDED)
)


class StepTask(NamedTuple):
    """A task of a step that is to be granted. ``number``: of its step; None: it begins a step.

    ``place``: which of the job's nodes it runs on, from 0.
    """

    allocation: int
    session: str
    number: int | None
    task: int
    place: int
    command: str
    user: str


def begin_task(connection: Connection, wanted: StepTask, now: float) -> int | Refused:
    """Record that a task may begin; returns the number of its step. The same request again gets the same number.

    Or returns why not: ``not_running``: its job's allocation has ended; ``unknown_step``: the user has no such step
    there. It raises nothing, because other works share the transaction.
    """
    allocation = {"allocation": wanted.allocation}
    if connection.execute(_IS_OPEN, allocation).first() is None:
        return Refused("not_running", "the job has just ended, so nothing can be started in it", "id", status=409)
    number = wanted.number
    if number is None:
        number = connection.execute(_OF_SESSION, allocation | {"session": wanted.session}).scalar()
    if number is None:
        return _first(connection, wanted, now)
    row = connection.execute(_ONE, allocation | {"number": number}).mappings().one_or_none()
    if row is None or row["started_by"] != wanted.user:
        message = f"you have no step {number} in this job; leave out the number, and begin one"
        return Refused("unknown_step", message, "step.number", status=404)
    places = int(row["places"], 16) | 1 << wanted.place
    run_each(connection, _CHANGED, [_changed(row, begun(_state(row), wanted.task), places)])
    return int(number)


def _first(connection: Connection, wanted: StepTask, now: float) -> int:
    """Record a step with its first task."""
    last = connection.execute(_LAST, {"allocation": wanted.allocation}).scalar()
    number = 0 if last is None else last + 1
    row = {
        "allocation_id": wanted.allocation,
        "number": number,
        "session": wanted.session,
        "command": wanted.command,
        "started_by": wanted.user,
        "started_at": now,
        "tasks": 1,
        "nodes": 1,
        "begun": f"{1 << wanted.task:x}",
        "ended": "0",
        "unstarted": "0",
        "places": f"{1 << wanted.place:x}",
    }
    connection.execute(_NEW, row)
    if number >= MOST_STEPS and number % TRIM_EVERY == 0:
        connection.execute(_TRIM, {"allocation": wanted.allocation, "number": number - MOST_STEPS})
    return number


def take_step_ends(connection: Connection, ends: Sequence[tuple[str, StepEnd]], now: float) -> None:
    """Record ends of (node, end). A node speaks for allocations that it has a part in; others have no effect."""
    if not ends:
        return
    asked = list({(end.allocation, node) for node, end in ends})
    own = {(allocation, node) for allocation, node in connection.execute(_OWN, {"wanted": asked})}
    counting = [end for node, end in ends if (end.allocation, node) in own]
    if not counting:
        return
    wanted = list({(end.allocation, end.number) for end in counting})
    found = connection.execute(_MAY_END, {"wanted": wanted}).mappings()
    rows = {(row["allocation_id"], row["number"]): row for row in found}
    states = {key: _state(row) for key, row in rows.items()}
    changed = dict[tuple[int, int], None]()
    for end in counting:
        key = end.allocation, end.number
        if key in rows:
            states[key] = ended(states[key], _believable(end, rows[key]["started_at"], now))
            changed[key] = None
    run_each(connection, _CHANGED, [_changed(rows[key], states[key], int(rows[key]["places"], 16)) for key in changed])


def end_steps(connection: Connection, allocations: Collection[int]) -> None:
    """End the open steps of these allocations, which have ended."""
    if allocations:
        connection.execute(_WITH_JOB, {"ids": allocations})


def _believable(end: StepEnd, started_at: float, now: float) -> StepEnd:
    """The end with its values within their bounds."""
    return StepEnd(
        allocation=end.allocation,
        number=end.number,
        task=end.task,
        at=believable_time(end.at, started_at, now),
        exit_status=believable_number(end.exit_status, LARGEST_STATUS),
        signal=believable_number(end.signal, LARGEST_SIGNAL),
        cause=end.cause if end.cause in CAUSES else None,
    )


def _state(row: Any) -> StepState:  # noqa: ANN401 - a row
    return StepState(
        begun=int(row["begun"], 16),
        ended=int(row["ended"], 16),
        unstarted=int(row["unstarted"], 16),
        ended_at=row["ended_at"],
        exit_status=row["exit_status"],
        signal=row["signal"],
        cause=row["cause"],
    )


def _changed(row: Any, state: StepState, places: int) -> dict[str, Value]:  # noqa: ANN401 - a row
    return {
        "allocation": row["allocation_id"],
        "of_number": row["number"],
        "at": state.ended_at,
        "status": state.exit_status,
        "by_signal": state.signal,
        "why": state.cause,
        "tasks_begun": f"{state.begun:x}",
        "tasks_ended": f"{state.ended:x}",
        "tasks_unstarted": f"{state.unstarted:x}",
        "at_places": f"{places:x}",
        "n_tasks": state.begun.bit_count(),
        "n_nodes": places.bit_count(),
    }
