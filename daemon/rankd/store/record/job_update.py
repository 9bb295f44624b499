"""Updating pending jobs, and the time limits of running ones. Reads them and writes what ``core/change`` decides.

There are two steps, so that the first needs no lock. :func:`judge` reads the jobs and decides. :func:`write_update`
stores the decisions. A job that has changed in between is judged again. A job's values before and after are kept with
its event. A job that already has all the new values is not changed.

Uses SQLAlchemy Core, although an administrator may change a million jobs: reading 250 of them takes 1.3 ms, as text
1.4 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import func, select

from rankd.core.admission.dependency import Awaited, ByIndex, job_in, named_jobs
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.privacy import sees_only
from rankd.core.admission.readmission import AdmittedJob
from rankd.core.change.job_action import PASSED_OVER
from rankd.core.change.job_change import VIA, Change
from rankd.core.change.job_update import (
    CONDITION_FIELDS,
    AwaitedJobs,
    StoredJob,
    Task,
    Update,
    Verdict,
    decide_update,
    permitted_update,
    with_added_limit,
)
from rankd.core.change.running_limit import RunningLimit, decide_limit
from rankd.core.errors import Refused
from rankd.core.model.array import shown_list
from rankd.core.model.index_set import count, read
from rankd.core.model.job import BY_INDEX, Event, JobRequest, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, number_of
from rankd.store.engine.word import VALUES
from rankd.store.record.allocation_order import order_limits
from rankd.store.record.array import forget_requests
from rankd.store.record.array_match import match_again
from rankd.store.record.catalog import Catalog
from rankd.store.record.dependency import indices_of, jobs_of_user, progress_of, replace_waits
from rankd.store.record.job import apply_changes
from rankd.store.record.job_name import Target, as_targets, records
from rankd.store.record.update_column import Ids, columns_of
from rankd.store.schema.table import array_requests, arrays, associations, jobs, qos, queues
from rankd.wire.job_selection import id_or_name
from rankd.wire.message import Failed, SelectionReply

_REQUEST = msgspec.json.Decoder(JobRequest)
_OF, _WANTED, _PAIRS = jobs.c, listed("wanted"), listed("wanted", VALUES)
_STORED = (
    select(
        _OF.id,
        _OF.user,
        _OF.revision,
        _OF.state,
        _OF.held,
        _OF.held_by,
        _OF.blocked_by,
        _OF.eligible_at,
        _OF.fixed_priority,
        _OF.class_value,
        _OF.priority_class,
        _OF.preemption_policy,
        func.coalesce(array_requests.c.request, _OF.request),
        _OF.urgency,
        associations.c.account,
        queues.c.path,
        queues.c.partition,
        qos.c.name,
        _OF.array,
        _OF.array_limit,
        _OF.array_job,
        _OF.array_task,
        arrays.c.n_pending,
        arrays.c.n_eligible,
        arrays.c.n_unmet,
        arrays.c.eligible.is_not(None),
    )
    .join_from(_WANTED, jobs, _OF.id == _WANTED.c.value)
    .join(associations, associations.c.id == _OF.association_id)
    .join(queues, queues.c.id == _OF.queue_id)
    .join(qos, qos.c.id == _OF.qos_id)
    .outerjoin(array_requests, array_requests.c.id == _OF.request_id)
    .outerjoin(arrays, arrays.c.job_id == _OF.id)
)
_CHANGED = (
    select(_OF.id)
    .join_from(_PAIRS, jobs, _OF.id == number_of(_PAIRS.c.value, "$[0]"))
    .where(_OF.revision != number_of(_PAIRS.c.value, "$[1]"))
)


class Judgement(NamedTuple):
    """The decisions. Jobs that already have all the new values have verdicts without ``changes``."""

    verdicts: list[Verdict]
    failed: list[Failed]
    limits: Sequence[RunningLimit] = ()
    """Time limits of running jobs."""

    def all(self) -> list[Verdict | RunningLimit]:
        """The decisions about all jobs."""
        return [*self.verdicts, *self.limits]


def judge(connection: Connection, wanted: Iterable[Target | int], task: Task) -> Judgement:
    """Decide the update of these jobs. Writes nothing."""
    targets = as_targets(wanted)
    stored, given = _read(connection, records(targets)), task.update.given()
    awaited = _awaited(connection, task, stored.values())
    verdicts: list[Verdict] = []
    limits: list[RunningLimit] = []
    failed: list[Failed] = []
    for target in targets:
        try:
            known = permitted_update(target.job, _of_target(target, stored), task.asker)
            wanted_of_job = with_added_limit(known.name(target.job), known, given, task.update)
            if known.state is State.RUNNING and not known.is_array:
                others = _beside(task.update)
                default = task.tables.settings.scheduling.default_time_limit_s
                limits.append(decide_limit(target.job, known, {**wanted_of_job, **others}, task.asker, default))
            else:
                verdicts.append(decide_update(target.job, known, wanted_of_job, task, awaited))
        except Refused as error:
            if not (target.of_whole and error.code in PASSED_OVER):
                one = _of_target(target, stored)
                name = target.name if one is None else id_or_name(target.job, one.name(target.job))
                failed.append(Failed(id=name, code=error.code, message=error.message))
    return Judgement(verdicts, failed, limits)


def _beside(update: Update) -> dict[str, object]:
    """The given fields that are no fields of a request."""
    fields = {"fixed_priority": update.fixed_priority, "array_limit": update.array_limit}
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}


def _of_target(target: Target, stored: Mapping[int, StoredJob]) -> StoredJob | None:
    """The record; for a task without one, that of its array."""
    record = stored.get(target.job)
    return record if record is None or target.task is None else record._replace(alone=target.task)


def names_of(verdicts: Iterable[Verdict | RunningLimit]) -> tuple[list[str], int]:
    """How people name the jobs of these verdicts, and how many jobs and tasks they are."""
    names, number = list[str](), 0
    for verdict in verdicts:
        stored = verdict.stored
        rest = None if stored.alone is not None else stored.array
        names.append(stored.name(verdict.job) + ("" if rest is None else f"_[{shown_list(rest)}]"))
        number += 1 if rest is None else count(read(rest))
    return names, number


def write_update(connection: Connection, judgement: Judgement, task: Task, catalog: Catalog) -> SelectionReply:
    """Store the decisions."""
    ids = Ids(connection, catalog, task.now)
    changes: list[Change] = []
    done: list[Verdict | RunningLimit] = []
    failed = list(judgement.failed)
    for verdict in judgement.verdicts:
        try:
            if verdict.changes:
                changes.append(_change(verdict, task, ids))
            done.append(verdict)
        except Refused as error:
            failed.append(Failed(id=verdict.stored.name(verdict.job), code=error.code, message=error.message))
    changed = [limit for limit in judgement.limits if limit.changes]
    done += judgement.limits
    apply_changes(connection, [*changes, *(_limit_change(limit, task) for limit in changed)], task.now)
    order_limits(connection, {limit.job: limit.after for limit in changed})
    if task.update.depends_on is not msgspec.UNSET:
        waits = {change.job: task.update.depends_on for change in changes if "depends_on" in change.columns}
        replace_waits(connection, waits)
        match_again(connection, waits)
    has_new = [change.job for change in changes if "request" in change.columns]
    forget_requests(connection, [*has_new, *(limit.job for limit in changed)])
    return reply_of(done, failed)


def _limit_change(limit: RunningLimit, task: Task) -> Change:
    pairs = {name: {"before": before, "after": after} for name, (before, after) in limit.changes.items()}
    return Change(
        job=limit.job,
        state=limit.stored.state,
        event=Event.UPDATE,
        actor=task.asker.user,
        detail=pairs | ({} if task.asker.via is None else {VIA: task.asker.via}),
        columns={"time_limit_s": limit.after, "request": limit.request, "request_id": None},
    )


def reply_of(done: Sequence[Verdict | RunningLimit], failed: list[Failed]) -> SelectionReply:
    """The reply about these jobs, with their names."""
    names, jobs = names_of(done)
    return SelectionReply(done=[verdict.job for verdict in done], failed=failed, names=names, jobs=jobs)


def judge_again(
    connection: Connection,
    judgement: Judgement,
    before: Task,
    now: Task,
    still: Callable[[list[int]], Iterable[Target | int]],
) -> Judgement:
    """The same judgement, but jobs that have changed since then are judged again.

    ``still`` returns those of them that are still selected. All jobs are judged again if other tables are in force.
    """
    jobs = [one.job for one in judgement.all()]
    if before.tables is now.tables:
        jobs = _changed_since(connection, judgement)
    if not jobs:
        return judgement
    again, gone = judge(connection, still(jobs), now), set(jobs)
    kept = [verdict for verdict in judgement.verdicts if verdict.job not in gone]
    limits = [limit for limit in judgement.limits if limit.job not in gone]
    return Judgement(kept + again.verdicts, judgement.failed + again.failed, [*limits, *again.limits])


def _changed_since(connection: Connection, judgement: Judgement) -> list[int]:
    judged = [[one.job, one.stored.revision] for one in judgement.all()]
    return list(connection.execute(_CHANGED, {"wanted": judged}).scalars())


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
        detail=verdict.event_detail() | ({} if task.asker.via is None else {VIA: task.asker.via}),
        columns=columns,
    )


def _awaited(connection: Connection, task: Task, stored: Iterable[StoredJob]) -> AwaitedJobs:
    """The progress of the jobs' dependencies. A job that the asker names, but may not see, counts as unknown."""
    update = task.update
    if CONDITION_FIELDS.isdisjoint(update.given()):
        return AwaitedJobs({})
    given = None if update.depends_on is msgspec.UNSET else update.depends_on
    names = set[Awaited]() if given is None else set(named_jobs(given))
    for one in stored:
        names.update(named_jobs(one.admitted.request.depends_on if given is None else given, one.task))
    if given is not None:
        names = jobs_of_user(connection, names, sees_only(task.asker))
    by_index = [job_in(name) for name in named_jobs(one for one in given or () if one.type == BY_INDEX)]
    return AwaitedJobs(progress_of(connection, names), indices_of(connection, by_index) if by_index else {})


def _read(connection: Connection, ids: Sequence[int]) -> dict[int, StoredJob]:
    return {row[0]: _stored(row) for row in connection.execute(_STORED, {"wanted": ids})}


def _stored(row: Sequence[Any]) -> StoredJob:
    """The job with its stored values, which replace the requested names and values."""
    (_id, user, revision, state, held, held_by, blocked_by, eligible_at, fixed, class_value, class_name, policy,
     request, urgency, account, queue, partition, qos, array, array_limit, array_job, task, n_pending, n_eligible,
     n_unmet, is_known) = row  # fmt: skip
    present = msgspec.structs.replace(
        _REQUEST.decode(request),
        user=None,
        urgency=urgency,
        account=account,
        queue=queue,
        partition=partition,
        qos=qos,
    )
    resolved = Resolved(class_value=class_value, name=class_name, preemption_policy=policy)
    return StoredJob(
        revision=revision,
        state=State(state),
        held=held,
        held_by=held_by,
        is_array=array is not None,
        array=array,
        array_limit=array_limit,
        array_job=array_job,
        task=task,
        by_index=None
        if n_eligible is None
        else ByIndex(tasks=n_pending, eligible=n_eligible, unmet=n_unmet or 0, is_known=bool(is_known)),
        blocked_by=blocked_by,
        eligible_at=eligible_at,
        fixed_priority=fixed,
        admitted=AdmittedJob(user=user, resolved=resolved, request=present),
    )
