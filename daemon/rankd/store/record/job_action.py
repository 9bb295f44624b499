"""Cancelling, holding and releasing jobs. Reads their states and writes what ``core/change/job_action.py`` decides."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.admit import Submitter
from rankd.core.change.job_action import Decide, permitted
from rankd.core.change.job_change import Change, EndRequest
from rankd.core.errors import Refused
from rankd.store.record.job import VIA, apply_changes, read_states
from rankd.wire.message import Failed, JobFilter, SelectionReply

MAX_SELECTED = 1_000_000
_ACTIVE = "j.state IN ('pending', 'allocated', 'running')"
"""Written exactly as in the partial index on jobs, otherwise SQLite does not use the index."""


def select_ids(connection: Connection, chosen: JobFilter) -> list[int]:
    """Ids of jobs that have not ended and match the filter, ascending. Queue names ignore case."""
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
    """Apply a decision to each job; a failure does not stop the others. ``dry_run``: decide, but write nothing."""
    states = read_states(connection, ids)
    changes: list[Change] = []
    ends: list[EndRequest] = []
    done: list[int] = []
    failed: list[Failed] = []
    for job in dict.fromkeys(ids):
        try:
            decision = decide(job, permitted(job, states.get(job), asker), asker, now)
        except Refused as error:
            failed.append(Failed(id=job, code=error.code, message=error.message))
            continue
        done.append(job)
        if isinstance(decision, EndRequest):
            ends.append(decision)
        else:
            changes.append(_through(decision, asker))
    if not dry_run:
        apply_changes(connection, changes, now)
        _request_ends(connection, ends, asker)
    return SelectionReply(done=done, failed=failed)


def _through(change: Change, asker: Submitter) -> Change:
    """The change, with the gateway that vouched for the asker."""
    if asker.via is None:
        return change
    return msgspec.structs.replace(change, detail={**(change.detail or {}), VIA: asker.via})


def _request_ends(connection: Connection, ends: Sequence[EndRequest], asker: Submitter) -> None:
    """Record that these jobs have to end, and who requested it. Their nodes read it."""
    if not ends:
        return
    ids = json.dumps([end.job for end in ends])
    connection.exec_driver_sql(
        "UPDATE jobs SET cancelled_by = ? WHERE id IN (SELECT value FROM json_each(?))", (asker.user, ids)
    )
    connection.exec_driver_sql(
        "UPDATE allocations SET cancel = 'cancel' WHERE cancel IS NULL AND ended_at IS NULL AND id IN"
        " (SELECT allocation_id FROM jobs WHERE id IN (SELECT value FROM json_each(?)))",
        (ids,),
    )
