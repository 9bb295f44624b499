"""Changing pending jobs: the changed request is admitted again, by the same rules as a new one.

In two steps, so that the first needs no lock: :func:`judge` reads the jobs and decides, :func:`write_update` stores
what was decided. A job that has changed in between is judged again. What a job had before and has now is kept with its
event; a job that has all of it already is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.admit import AdmissionTables, Submitter
from rankd.core.admission.dependency import Blocked, Progress, blocked_by, check_known
from rankd.core.admission.job_size import check_size
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.readmission import CLASS_FIELDS, Standing, readmit
from rankd.core.change.job_change import Change, Value
from rankd.core.errors import Refused, admins_only
from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.job import URGENCY_HOLD, AcceptedJob, Event, JobRequest, State
from rankd.store.record.catalog import Catalog
from rankd.store.record.dependency import progress_of, waited_for
from rankd.store.record.job import apply_changes
from rankd.store.record.update_column import Ids, Stored, Verdict, columns_of
from rankd.wire.codec import encode
from rankd.wire.job_update import REQUEST_FIELDS, JobUpdate
from rankd.wire.message import Failed, SelectionReply

_REQUEST = msgspec.json.Decoder(JobRequest)
_SHOWN = tuple(name for name in REQUEST_FIELDS if name not in {"priority", "preemption_policy"})
"""Fields of a request that an event tells the change of; the class's number and policy it tells as resolved."""
_CONDITIONS = frozenset({"begin_at", "depends_on"})


class Task(NamedTuple):
    """What to change, who asks, and what holds at that moment."""

    update: JobUpdate
    asker: Submitter
    tables: AdmissionTables
    now: float


class Judgement(NamedTuple):
    """What will be done. ``verdicts`` of jobs that nothing is to change of have no ``changes``."""

    verdicts: list[Verdict]
    failed: list[Failed]


class _Ahead(NamedTuple):
    """What new dependencies wait for: how far those jobs are, and all that they wait for themselves."""

    progress: Mapping[int, Progress]
    waited_for: set[int]


def check_update(update: JobUpdate, asker: Submitter) -> None:
    """Nothing where this asker may change these fields of his jobs.

    Raises:
        Refused: ``nothing_to_update``, ``class_not_named``, ``admins_only`` (a fixed priority),
            ``bad_fixed_priority``.
    """
    given, fixed = update.given(), update.fixed_priority
    if not given and fixed is msgspec.UNSET:
        raise Refused("nothing_to_update", f"name a field to change: {', '.join(REQUEST_FIELDS)}, fixed_priority")
    if "priority_class" not in given and not CLASS_FIELDS.isdisjoint(given):
        message = "priority and preemption_policy are the class's; name it in priority_class"
        raise Refused("class_not_named", message, "priority_class")
    if fixed is not msgspec.UNSET and not asker.privileged:
        raise admins_only("fixing a job's priority", asker.user, "fixed_priority")
    if isinstance(fixed, int) and not INT32_MIN <= fixed <= INT32_MAX:
        message = f"{fixed} is no priority; give {INT32_MIN} to {INT32_MAX}"
        raise Refused("bad_fixed_priority", message, "fixed_priority")


def update_jobs(connection: Connection, ids: Sequence[int], task: Task, catalog: Catalog) -> SelectionReply:
    """Change these jobs as :func:`check_update` allows; one that can't be changed does not stop the others."""
    return write_update(connection, judge(connection, ids, task), task, catalog)


def judge(connection: Connection, ids: Sequence[int], task: Task) -> Judgement:
    """What the update makes of these jobs. Writes nothing."""
    stored, given = _read(connection, ids), task.update.given()
    ahead = _ahead(connection, task.update, stored.values())
    verdicts: list[Verdict] = []
    failed: list[Failed] = []
    for job in dict.fromkeys(ids):
        try:
            verdicts.append(_judged(job, stored.get(job), given, task, ahead))
        except Refused as error:
            failed.append(Failed(id=job, code=error.code, message=error.message))
    return Judgement(verdicts, failed)


def write_update(connection: Connection, judgement: Judgement, task: Task, catalog: Catalog) -> SelectionReply:
    """Store what was decided."""
    ids = Ids(connection, catalog, task.now)
    changes: list[Change] = []
    done: list[int] = []
    failed = list(judgement.failed)
    for verdict in judgement.verdicts:
        try:
            if verdict.changes:
                changes.append(_change(verdict, task, ids))
            done.append(verdict.job)
        except Refused as error:
            failed.append(Failed(id=verdict.job, code=error.code, message=error.message))
    apply_changes(connection, changes, task.now)
    return SelectionReply(done=done, failed=failed)


def judge_again(
    connection: Connection,
    judgement: Judgement,
    before: Task,
    now: Task,
    still: Callable[[list[int]], Sequence[int]],
) -> Judgement:
    """The same judgement, or a new one of jobs to which something has happened since it was made.

    ``still`` says which of them are meant as they are now. Of all jobs a new one, if other tables are in force.
    """
    jobs = [verdict.job for verdict in judgement.verdicts]
    if before.tables is now.tables:
        jobs = _changed_since(connection, judgement)
    if not jobs:
        return judgement
    again, gone = judge(connection, still(jobs), now), set(jobs)
    kept = [verdict for verdict in judgement.verdicts if verdict.job not in gone]
    return Judgement(kept + again.verdicts, judgement.failed + again.failed)


def _changed_since(connection: Connection, judgement: Judgement) -> list[int]:
    judged = [[verdict.job, verdict.stored.revision] for verdict in judgement.verdicts]
    rows = connection.exec_driver_sql(
        "SELECT j.id FROM json_each(?) w JOIN jobs j ON j.id = json_extract(w.value, '$[0]')"
        " WHERE j.revision != json_extract(w.value, '$[1]')",
        (json.dumps(judged),),
    )
    return [row[0] for row in rows]


def _change(verdict: Verdict, task: Task, ids: Ids) -> Change:
    columns = columns_of(verdict, ids)
    if "fixed_priority" in verdict.changes:
        fixed = None if task.update.fixed_priority is msgspec.UNSET else task.update.fixed_priority
        columns |= {"fixed_priority": fixed, "fixed_by": None if fixed is None else task.asker.user}
    return Change(
        job=verdict.job,
        state=verdict.stored.state,
        event=Event.UPDATE,
        actor=task.asker.user,
        detail=_told(verdict),
        columns=columns,
    )


def _told(verdict: Verdict) -> dict[str, object]:
    """The fields that change, and what that does to the job's being held and eligible."""
    waiting = {name: (getattr(verdict.stored, name), after) for name, after in verdict.waiting.items()}
    pairs = {**verdict.changes, **waiting}
    return {name: {"before": before, "after": after} for name, (before, after) in pairs.items()}


def _judged(job: int, stored: Stored | None, given: Mapping[str, object], task: Task, ahead: _Ahead) -> Verdict:
    asker = task.asker
    if stored is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    if stored.standing.user != asker.user and not asker.privileged:
        raise Refused("not_owner", f"job {job} belongs to '{stored.standing.user}'", "id", status=403)
    if stored.state is not State.PENDING:
        raise Refused("not_pending", f"job {job} is {stored.state}; only pending jobs can be changed", status=409)
    if task.update.depends_on is not msgspec.UNSET:
        check_known(task.update.depends_on, ahead.progress)
    if job in ahead.waited_for:
        message = f"job {job} would wait for itself; name other jobs"
        raise Refused("bad_dependency", message, "depends_on")
    accepted, resolved = readmit(stored.standing, given, asker, task.tables)
    accepted = msgspec.structs.replace(accepted, request=_resolved(accepted))
    request = encode(accepted.request)
    check_size(len(request))
    changes = _changes(stored, accepted, resolved, task.update)
    return Verdict(
        job=job,
        stored=stored,
        accepted=accepted,
        request=request.decode(),
        changes=changes,
        waiting=_waiting(stored, accepted, changes.keys(), ahead.progress, task.now),
    )


def _resolved(accepted: AcceptedJob) -> JobRequest:
    """The request with the names that it came to."""
    return msgspec.structs.replace(
        accepted.request,
        queue=accepted.queue,
        partition=accepted.partition,
        qos=accepted.qos,
        account=accepted.account,
    )


def _changes(
    stored: Stored, accepted: AcceptedJob, resolved: Resolved, update: JobUpdate
) -> dict[str, tuple[object, object]]:
    """(before, after) by field, of those that differ; amounts as they were written."""
    before, after = stored.standing.request, accepted.request
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in _SHOWN}
    old = stored.standing.resolved
    pairs["priority_class"] = (old.name, resolved.name)
    pairs["class_value"] = (old.class_value, resolved.class_value)
    pairs["preemption_policy"] = (old.preemption_policy, resolved.preemption_policy)
    if update.fixed_priority is not msgspec.UNSET:
        pairs["fixed_priority"] = (stored.fixed_priority, update.fixed_priority)
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "depends_on" in changed:
        changed["depends_on"] = (msgspec.to_builtins(before.depends_on), msgspec.to_builtins(after.depends_on))
    return changed


def _waiting(
    stored: Stored, accepted: AcceptedJob, changed: Collection[str], progress: Mapping[int, Progress], now: float
) -> dict[str, Value]:
    """What keeps the job from being eligible from now on.

    Only a change of the urgency to or from 0 holds or releases; other fields leave an eligible job's age alone.
    """
    held, blocked, eligible_at = stored.held, stored.blocked_by, stored.eligible_at
    was_held, is_held = (r.urgency == URGENCY_HOLD for r in (stored.standing.request, accepted.request))
    if was_held != is_held:
        held = is_held
    if not _CONDITIONS.isdisjoint(changed):
        begin_at, depends_on = accepted.request.begin_at, tuple(accepted.request.depends_on)
        blocked = blocked_by(Blocked(job=0, held=held, begin_at=begin_at, depends_on=depends_on), progress, now)
    if held or blocked is not None:
        eligible_at = None
    elif eligible_at is None:
        eligible_at = now
    after: dict[str, Value] = {"held": held, "blocked_by": blocked, "eligible_at": eligible_at}
    return {name: value for name, value in after.items() if value != getattr(stored, name)}


def _ahead(connection: Connection, update: JobUpdate, stored: Iterable[Stored]) -> _Ahead:
    if _CONDITIONS.isdisjoint(update.given()):
        return _Ahead({}, set())
    if update.depends_on is msgspec.UNSET:
        given = {dependency for one in stored for dependency in one.standing.request.depends_on}
        return _Ahead(progress_of(connection, given), set())
    return _Ahead(
        progress_of(connection, update.depends_on),
        waited_for(connection, [dependency.job for dependency in update.depends_on]),
    )


def _read(connection: Connection, ids: Sequence[int]) -> dict[int, Stored]:
    rows = connection.exec_driver_sql(
        'SELECT j.id, j."user", j.revision, j.state, j.held, j.blocked_by, j.eligible_at, j.fixed_priority,'
        " j.class_value, j.priority_class, j.preemption_policy, j.request, j.urgency, a.account, q.path, q.partition,"
        " s.name FROM json_each(?) w JOIN jobs j ON j.id = w.value JOIN associations a ON a.id = j.association_id"
        " JOIN queues q ON q.id = j.queue_id JOIN qos s ON s.id = j.qos_id",
        (json.dumps(list(ids)),),
    )
    return {row[0]: _stored(*row[1:]) for row in rows}


def _stored(user: str, *row: Any) -> Stored:  # noqa: ANN401 - a database row
    """What was resolved, or set later, takes the place of what was asked for."""
    (revision, state, held, blocked_by, eligible_at, fixed, class_value, class_name, policy, request, urgency,
     account, queue, partition, qos) = row  # fmt: skip
    return Stored(
        revision=revision,
        state=State(state),
        held=bool(held),
        blocked_by=blocked_by,
        eligible_at=eligible_at,
        fixed_priority=fixed,
        standing=Standing(
            user=user,
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
        ),
    )
