"""Changing pending jobs: the changed request is admitted again, by the same rules as a new one.

The class of a job is resolved once, at its submission, and stays. A change of the urgency to 0 holds the job,
from 0 releases it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.admit import AdmissionTables, Submitter, admit, resolve_queue, vcore_of
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.queue_entry import check_access
from rankd.core.errors import Refused
from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.job import URGENCY_HOLD, AcceptedJob, Event, JobRequest, State
from rankd.store.application import application_of
from rankd.store.catalog import Catalog
from rankd.store.job import Change, Value, apply_changes, association_of, check_size, shape_of
from rankd.store.made_queue import queue_of
from rankd.wire.codec import encode
from rankd.wire.message import Failed, JobUpdate, SelectionReply

_REQUEST = msgspec.json.Decoder(JobRequest)
_REQUEST_FIELDS = ("urgency", "queue", "qos", "account", "time_limit_s", "resources", "name", "comment")


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed of a job that is to be changed."""

    user: str
    state: State
    held: bool
    blocked_by: str | None
    eligible_at: float | None
    resolved: Resolved
    request: JobRequest


def update_jobs(
    connection: Connection,
    ids: Sequence[int],
    update: JobUpdate,
    asker: Submitter,
    tables: AdmissionTables,
    catalog: Catalog,
    now: float,
) -> SelectionReply:
    """Change these jobs as :func:`check_update` allows; one that can't be changed does not stop the others."""
    stored = _read(connection, ids)
    changes: list[Change] = []
    failed: list[Failed] = []
    for job in dict.fromkeys(ids):
        try:
            changes.append(_change(connection, job, stored.get(job), update, asker, tables, catalog, now))
        except Refused as error:
            failed.append(Failed(id=job, code=error.code, message=error.message))
    apply_changes(connection, changes, now)
    return SelectionReply(done=[change.job for change in changes], failed=failed)


def check_update(update: JobUpdate, asker: Submitter) -> None:
    """Nothing where this asker may change these fields of his jobs.

    Raises:
        Refused: ``nothing_to_update``, ``admins_only`` (a fixed priority), ``bad_fixed_priority``.
    """
    if not _given(update) and update.fixed_priority is msgspec.UNSET:
        raise Refused("nothing_to_update", f"name a field to change: {', '.join(_REQUEST_FIELDS)}, fixed_priority")
    if update.fixed_priority is not msgspec.UNSET and not asker.privileged:
        message = "only an administrator may fix a job's priority; ask one, or change the urgency"
        raise Refused("admins_only", message, "fixed_priority", status=403)
    fixed = update.fixed_priority
    if isinstance(fixed, int) and not INT32_MIN <= fixed <= INT32_MAX:
        message = f"{fixed} is no priority; give {INT32_MIN} to {INT32_MAX}"
        raise Refused("bad_fixed_priority", message, "fixed_priority")


def _given(update: JobUpdate) -> dict[str, object]:
    fields = {name: getattr(update, name) for name in _REQUEST_FIELDS}
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}


def _change(
    connection: Connection,
    job: int,
    stored: _Stored | None,
    update: JobUpdate,
    asker: Submitter,
    tables: AdmissionTables,
    catalog: Catalog,
    now: float,
) -> Change:
    if stored is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    if stored.user != asker.user and not asker.privileged:
        raise Refused("not_owner", f"job {job} belongs to '{stored.user}'", "id", status=403)
    if stored.state is not State.PENDING:
        raise Refused("not_pending", f"job {job} is {stored.state}; only pending jobs can be changed", status=409)
    request = msgspec.structs.replace(stored.request, **_given(update))
    may_keep_urgency = asker.privileged or update.urgency is msgspec.UNSET
    accepted = admit(request, Submitter(stored.user, may_keep_urgency), tables, stored.resolved)
    if update.queue is not msgspec.UNSET and not asker.privileged:
        check_access(resolve_queue(request, tables), stored.user, accepted.groups)
    return Change(
        job=job,
        state=stored.state,
        event=Event.UPDATE,
        actor=asker.user,
        detail=_given(update) | _fixed(update),
        columns={
            **_columns(connection, accepted, catalog, now),
            **_hold(stored, accepted, update, now),
            **({"fixed_by": asker.user, **_fixed(update)} if _fixed(update) else {}),
        },
    )


def _fixed(update: JobUpdate) -> dict[str, int | None]:
    fixed = update.fixed_priority
    return {} if fixed is msgspec.UNSET else {"fixed_priority": fixed}


def _columns(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> dict[str, Value]:
    request = accepted.request
    encoded = encode(request)
    check_size(len(encoded))
    queue = queue_of(connection, accepted, catalog, now)
    columns: dict[str, Value] = {
        "association_id": association_of(connection, accepted, catalog, now),
        "queue_id": queue,
        "application_id": application_of(connection, queue, request.application, now),
        "qos_id": catalog.qos[accepted.qos],
        "urgency": accepted.urgency,
        "time_limit_s": request.time_limit_s,
        "vcore": vcore_of(accepted.resources),
        "resources": json.dumps(accepted.resources),
        "shape": shape_of(accepted).key(),
        "comment": request.comment,
        "request": encoded.decode(),
    }
    return columns | ({"name": request.name} if request.name else {})


def _hold(stored: _Stored, accepted: AcceptedJob, update: JobUpdate, now: float) -> dict[str, Value]:
    """Only a change of the urgency to or from 0 holds or releases; any other leaves the job's age alone."""
    was_held, is_held = (urgency == URGENCY_HOLD for urgency in (stored.request.urgency, accepted.urgency))
    if update.urgency is msgspec.UNSET or is_held == was_held:
        return {}
    if is_held:
        return {"held": True, "eligible_at": None}
    return {"held": False, "eligible_at": None if stored.blocked_by is not None else now}


def _read(connection: Connection, ids: Sequence[int]) -> dict[int, _Stored]:
    rows = connection.exec_driver_sql(
        'SELECT j.id, j."user", j.state, j.held, j.blocked_by, j.eligible_at, j.class_value, j.priority_class,'
        " j.preemption_policy, j.request, j.urgency, a.account, q.path, q.partition, s.name"
        " FROM json_each(?) w JOIN jobs j ON j.id = w.value JOIN associations a ON a.id = j.association_id"
        " JOIN queues q ON q.id = j.queue_id JOIN qos s ON s.id = j.qos_id",
        (json.dumps(list(ids)),),
    )
    return {row[0]: _stored(row) for row in rows}


def _stored(row: Any) -> _Stored:  # noqa: ANN401 - a database row
    """What was resolved, or set later, takes the place of what was asked for."""
    (_, user, state, held, blocked_by, eligible_at, class_value, class_name, policy, request, urgency,
     account, queue, partition, qos) = row  # fmt: skip
    return _Stored(
        user=user,
        state=State(state),
        held=bool(held),
        blocked_by=blocked_by,
        eligible_at=eligible_at,
        resolved=Resolved(class_value=class_value, name=class_name, preemption_policy=policy),
        request=msgspec.structs.replace(
            _REQUEST.decode(request),
            user=None,
            urgency=urgency,
            account=account,
            queue=queue,
            partition=partition,
            qos=qos,
        ),
    )
