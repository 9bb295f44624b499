"""What users may do to jobs that exist: cancel, hold, release."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from rankd.core.admission.admit import Submitter
from rankd.core.model.job import ACTIVE_STATES, URGENCY_DEFAULT, URGENCY_HOLD, Event, State
from rankd.store.record.job import Change, JobState, apply_changes, read_states
from rankd.wire.message import Failed, JobFilter, SelectionReply

Decision = Change | str
"""A change, or why there is none (code: message)."""

Decide = Callable[[int, JobState, Submitter, float], Decision]

MAX_SELECTED = 1_000_000
_ACTIVE = "j.state IN ('pending', 'allocated', 'running')"
"""Written as in the partial index on jobs, else SQLite does not see that the index serves."""


def select_ids(connection: Connection, chosen: JobFilter) -> list[int]:
    """Ids of jobs that have not ended and meet the filter, ascending; queues are looked up ignoring case."""
    conditions: list[str] = [_ACTIVE]
    values: list[str | int] = []
    columns = {
        "j.id": [chosen.id] if chosen.id is not None else chosen.ids,
        'j."user"': chosen.users,
        "a.account": chosen.accounts,
        "lower(q.path)": None if chosen.queues is None else [queue.lower() for queue in chosen.queues],
        "q.partition": chosen.partitions,
        "j.state": chosen.states,
        "j.name": chosen.names,
        "s.name": chosen.qos,
    }
    for column, wanted in columns.items():
        if wanted is not None:
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(wanted))
    if chosen.after is not None:
        conditions.append("j.id > ?")
        values.append(chosen.after)
    query = (
        "SELECT j.id FROM jobs j JOIN associations a ON a.id = j.association_id"
        " JOIN queues q ON q.id = j.queue_id JOIN qos s ON s.id = j.qos_id"
        f" WHERE {' AND '.join(conditions)} ORDER BY j.id LIMIT ?"
    )
    rows = connection.exec_driver_sql(query, (*values, min(chosen.limit, MAX_SELECTED)))
    return [row[0] for row in rows]


def act(
    connection: Connection,
    ids: Sequence[int],
    asker: Submitter,
    now: float,
    decide: Decide,
    *,
    dry_run: bool = False,
) -> SelectionReply:
    """Apply a decision to each job; one that fails does not stop the others. ``dry_run``: only tell."""
    states = read_states(connection, ids)
    changes: list[Change] = []
    failed: list[Failed] = []
    for job in dict.fromkeys(ids):
        state = states.get(job)
        decision = _permitted(job, state, asker) or decide(job, state, asker, now)  # type: ignore[arg-type]
        if isinstance(decision, str):
            code, _, message = decision.partition(": ")
            failed.append(Failed(id=job, code=code, message=message))
        else:
            changes.append(decision)
    reply = SelectionReply(done=[change.job for change in changes], failed=failed)
    if dry_run:
        return reply
    apply_changes(connection, [change for change in changes if change.event is not Event.CANCEL or _ends(change)], now)
    _request_ends(connection, changes, asker)
    return reply


def _permitted(job: int, state: JobState | None, asker: Submitter) -> str | None:
    if state is None:
        return f"unknown_job: there is no job {job}"
    if state.user != asker.user and not asker.privileged:
        return f"not_owner: job {job} belongs to '{state.user}'; only its owner or an administrator may do that"
    return None


def _ends(change: Change) -> bool:
    """Whether a cancellation ends the job at once: nothing of it runs."""
    return change.state is State.PENDING


def _request_ends(connection: Connection, changes: Sequence[Change], asker: Submitter) -> None:
    """Jobs that hold an allocation end when their nodes say so; until then the wish is on record."""
    wished = [c.job for c in changes if c.event is Event.CANCEL and not _ends(c)]
    if not wished:
        return
    ids = json.dumps(wished)
    connection.exec_driver_sql(
        "UPDATE jobs SET cancelled_by = ? WHERE id IN (SELECT value FROM json_each(?))", (asker.user, ids)
    )
    connection.exec_driver_sql(
        "UPDATE allocations SET cancel = 'cancel' WHERE cancel IS NULL AND ended_at IS NULL AND id IN"
        " (SELECT allocation_id FROM jobs WHERE id IN (SELECT value FROM json_each(?)))",
        (ids,),
    )


def cancel(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """End a job: at once if it is pending, else by its nodes."""
    if state.state is not State.PENDING and state.state not in ACTIVE_STATES:
        return f"already_ended: job {job} is {state.state}; there is nothing to cancel"
    ended = {"ended_at": now, "eligible_at": None} if state.state is State.PENDING else {}
    return Change(job=job, state=state.state, event=Event.CANCEL, actor=asker.user, cause="cancel", columns=ended)


def hold(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Keep a pending job from being ranked."""
    del now
    if state.state is not State.PENDING:
        return f"not_pending: job {job} is {state.state}; only pending jobs can be held"
    columns = {"held": True, "eligible_at": None}
    return Change(job=job, state=state.state, event=Event.HOLD, actor=asker.user, columns=columns)


def release(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Let a held job be ranked again; its age begins now. A job held by urgency 0 gets the default urgency."""
    if state.state is not State.PENDING:
        return f"not_pending: job {job} is {state.state}; only pending jobs can be released"
    if not state.held and state.urgency != URGENCY_HOLD:
        return f"not_held: job {job} is not held"
    columns = {
        "held": False,
        "urgency": URGENCY_DEFAULT if state.urgency == URGENCY_HOLD else state.urgency,
        "eligible_at": now if state.blocked_by is None else None,
    }
    return Change(job=job, state=state.state, event=Event.RELEASE, actor=asker.user, columns=columns)
