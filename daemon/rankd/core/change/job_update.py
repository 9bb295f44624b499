"""Updating a pending job: the changed request is admitted again, by the same rules as a new one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.dependency import (
    Awaited,
    Blocked,
    ByIndex,
    Progress,
    blocked_by,
    check_by_index,
    check_earlier,
    check_form,
    check_known,
)
from rankd.core.admission.job_size import check_size
from rankd.core.admission.permission import OwnedJob, check
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.readmission import CLASS_FIELDS, AdmittedJob, readmit
from rankd.core.admission.submitter import Submitter
from rankd.core.change.hold import check_release, holder
from rankd.core.change.job_change import Value
from rankd.core.errors import Refused
from rankd.core.instant import shown_length
from rankd.core.model.array import parse_array, shown_name
from rankd.core.model.index_set import IndexSet
from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.job import BY_INDEX, CHANGEABLE_FIELDS, URGENCY_HOLD, AcceptedJob, Dependency, JobRequest, State
from rankd.core.model.job_state import FINAL_STATES

LIMIT = "time_limit_s"
CONDITION_FIELDS = frozenset({"begin_at", "depends_on"})
"""Fields that may keep a job from being eligible."""

_COMPARED_FIELDS = tuple(name for name in CHANGEABLE_FIELDS if name not in {"priority", "preemption_policy"})
"""Fields whose change an event records. For a class, the event records its resolved number and policy instead."""

_encode = msgspec.json.Encoder().encode


class Update(Protocol):
    """The fields to change. A field that is UNSET stays as it is."""

    @property
    def depends_on(self) -> list[Dependency] | msgspec.UnsetType:
        """The jobs that the job waits for."""

    @property
    def fixed_priority(self) -> int | msgspec.UnsetType | None:
        """The fixed priority set by an administrator. None removes it: the computed priority counts again."""

    @property
    def array_limit(self) -> int | msgspec.UnsetType | None:
        """How many tasks of the array may run at a time. None removes the limit."""

    @property
    def add_time_limit_s(self) -> float | msgspec.UnsetType:
        """By how many seconds the time limit grows, or shrinks if it is negative."""

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be written."""

    def given(self) -> dict[str, object]:
        """The fields of the job's request to change, by name."""


class Task(NamedTuple):
    """The update, the user who asks, and the tables and the time (UTC seconds) for the decision."""

    update: Update
    asker: Submitter
    tables: AdmissionTables
    now: float


class StoredJob(NamedTuple):
    """The record of a job to change. ``array``: the indices that are pending in it, if it is an array.

    ``array_job`` and ``task``: of a task, its array and its index. ``by_index``: of an array that waits by index.
    ``alone``: the index of a task without a record, if this is the record of its array.
    """

    revision: int
    state: State
    held: bool
    blocked_by: str | None
    eligible_at: float | None
    fixed_priority: int | None
    admitted: AdmittedJob
    held_by: str | None = None
    is_array: bool = False
    array_limit: int | None = None
    array: str | None = None
    array_job: int | None = None
    task: int | None = None
    by_index: ByIndex | None = None
    alone: int | None = None

    def name(self, job: int) -> str:
        """How people name the job with this id: ``17``, or ``17_3`` for a task of array 17."""
        if self.alone is not None:
            return f"{job}_{self.alone}"
        return shown_name(job, self.array_job, self.task, None, None)


class AwaitedJobs(NamedTuple):
    """The jobs in the dependencies: their progress, and the indices of the arrays among them."""

    progress: Mapping[Awaited, Progress]
    arrays: Mapping[int, IndexSet] = {}


class Verdict(NamedTuple):
    """The result of an update for one job. ``changes`` are (before, after) by field; ``request`` is JSON.

    ``eligibility``: the new values of those of the columns ``held``, ``held_by``, ``blocked_by`` and ``eligible_at``
    that change. If the job has all the given values already, ``changes`` is empty.
    """

    job: int
    stored: StoredJob
    accepted: AcceptedJob
    request: str
    changes: Mapping[str, tuple[object, object]]
    eligibility: Mapping[str, Value]

    def event_detail(self) -> dict[str, object]:
        """For the event: the values before and after of all fields that change, with those of ``eligibility``."""
        eligibility = {name: (getattr(self.stored, name), after) for name, after in self.eligibility.items()}
        pairs = {**self.changes, **eligibility}
        return {name: {"before": before, "after": after} for name, (before, after) in pairs.items()}


def check_update(update: Update, asker: Submitter) -> None:
    """Check that this user may change these fields of any job.

    Raises:
        Refused: ``nothing_to_update``, ``class_not_named``, ``bad_dependency``, ``admins_only`` (a fixed priority),
            ``bad_fixed_priority``, ``bad_time_limit``.
    """
    given, fixed = update.given(), update.fixed_priority
    if added_limit(update) is not None:
        _check_added(update, given)
    elif not given and fixed is msgspec.UNSET and update.array_limit is msgspec.UNSET:
        raise Refused("nothing_to_update", f"give a field to change: {', '.join(CHANGEABLE_FIELDS)}, fixed_priority")
    if "priority_class" not in given and not CLASS_FIELDS.isdisjoint(given):
        message = "priority and preemption_policy belong to the class; give the class in priority_class"
        raise Refused("class_not_named", message, "priority_class")
    if update.depends_on is not msgspec.UNSET:
        check_form(update.depends_on)
    if fixed is not msgspec.UNSET:
        check(asker, "job.update fixed_priority")
    if isinstance(fixed, int) and not INT32_MIN <= fixed <= INT32_MAX:
        message = f"{fixed} is not a valid priority; give {INT32_MIN} to {INT32_MAX}"
        raise Refused("bad_fixed_priority", message, "fixed_priority")


def added_limit(update: Update) -> float | None:
    """By how many seconds the update changes the time limit, whatever that is; None: it does not."""
    return None if update.add_time_limit_s is msgspec.UNSET else update.add_time_limit_s


def _check_added(update: Update, given: Collection[str]) -> None:
    if LIMIT in given or not math.isfinite(added_limit(update) or 0.0):
        message = "give the time limit in time_limit_s, or a finite number of seconds in add_time_limit_s, not both"
        raise Refused("bad_time_limit", message, "add_time_limit_s")


def with_added_limit(name: str, stored: StoredJob, given: Mapping[str, object], update: Update) -> Mapping[str, object]:
    """The fields to change, with the sum of the job's time limit and what the update adds.

    Raises:
        Refused: ``bad_time_limit``.
    """
    added, before = added_limit(update), stored.admitted.request.time_limit_s
    if added is None:
        return given
    if before is None:
        message = f"job {name} has no time limit, so nothing can be added to it; give a limit"
        raise Refused("bad_time_limit", message, "add_time_limit_s")
    if before + added <= 0:
        message = f"job {name} has a time limit of {shown_length(before)}; {shown_length(-added)} less leaves nothing"
        raise Refused("bad_time_limit", message, "add_time_limit_s")
    return {**given, LIMIT: before + added}


def decide_update(
    job: int, stored: StoredJob | None, given: Mapping[str, object], task: Task, awaited: AwaitedJobs
) -> Verdict:
    """The result of the update for one job. ``given`` is ``task.update.given()``, which is the same for many jobs.

    Raises:
        Refused: ``unknown_job``, ``not_owner``, ``not_pending``, ``unknown_dependency``, ``bad_dependency``,
            ``not_an_array``, ``bad_array``,
            ``too_large``, ``admin_hold``; also the errors of :func:`rankd.core.admission.readmission.readmit`.
    """
    known = permitted_update(job, stored, task.asker)
    _check_pending(job, known)
    if task.update.array_limit is not msgspec.UNSET:
        _check_array(job, known, task.update.array_limit)
    if task.update.depends_on is not msgspec.UNSET:
        _check_dependencies(job, known, task.update.depends_on, awaited)
    accepted, resolved = readmit(known.admitted, given, task.asker, task.tables)
    accepted = msgspec.structs.replace(accepted, request=_with_resolved_names(accepted))
    request = _encode(accepted.request)
    check_size(len(request))
    changes = _changes(known, accepted, resolved, task.update)
    return Verdict(
        job=job,
        stored=known,
        accepted=accepted,
        request=request.decode(),
        changes=changes,
        eligibility=_eligibility(known, accepted, changes.keys(), awaited.progress, task.now)
        | _held(job, known, accepted, task.asker),
    )


def _check_dependencies(job: int, stored: StoredJob, wanted: Sequence[Dependency], awaited: AwaitedJobs) -> None:
    check_known(wanted, awaited.progress)
    check_earlier(stored.name(job), stored.array_job or job, wanted)
    listed = stored.admitted.request.array
    own = parse_array(listed).indices if stored.is_array and listed is not None else None
    check_by_index(wanted, own, awaited.arrays, stored.task)


def permitted_update(job: int, stored: StoredJob | None, asker: Submitter) -> StoredJob:
    """The record of a job that exists and that this asker may change.

    Raises:
        Refused: ``unknown_job``, ``not_owner``.
    """
    if stored is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    request = stored.admitted.request
    queue = None if request.queue is None or request.partition is None else (request.partition, request.queue)
    check(asker, "job.update", OwnedJob(stored.name(job), stored.admitted.user, queue))
    return stored


def _check_pending(job: int, stored: StoredJob) -> None:
    if stored.state is State.PENDING:
        return
    name, has_ended = stored.name(job), stored.state in FINAL_STATES
    why = (
        "it has ended, so nothing can be changed"
        if has_ended
        else "of a running job, only the time limit can be changed"
    )
    raise Refused("not_pending", f"job {name} is {stored.state}; {why}", status=409)


def _check_array(job: int, stored: StoredJob, limit: int | None) -> None:
    if not stored.is_array:
        raise Refused(
            "not_an_array", f"job {stored.name(job)} is not an array; only an array has a limit of tasks", "array_limit"
        )
    if limit is not None and limit < 1:
        raise Refused("bad_array", f"array_limit is {limit}; give 1 or more, or null for no limit", "array_limit")


def _with_resolved_names(accepted: AcceptedJob) -> JobRequest:
    return msgspec.structs.replace(
        accepted.request,
        queue=accepted.queue,
        partition=accepted.partition,
        qos=accepted.qos,
        account=accepted.account,
    )


def _changes(
    stored: StoredJob, accepted: AcceptedJob, resolved: Resolved, update: Update
) -> dict[str, tuple[object, object]]:
    """(before, after) of each field that differs, by name. Amounts are as the user wrote them."""
    before, after = stored.admitted.request, accepted.request
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in _COMPARED_FIELDS}
    old = stored.admitted.resolved
    pairs["priority_class"] = (old.name, resolved.name)
    pairs["class_value"] = (old.class_value, resolved.class_value)
    pairs["preemption_policy"] = (old.preemption_policy, resolved.preemption_policy)
    if update.fixed_priority is not msgspec.UNSET:
        pairs["fixed_priority"] = (stored.fixed_priority, update.fixed_priority)
    if update.array_limit is not msgspec.UNSET:
        pairs["array_limit"] = (stored.array_limit, update.array_limit)
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "depends_on" in changed:
        changed["depends_on"] = (msgspec.to_builtins(before.depends_on), msgspec.to_builtins(after.depends_on))
    return changed


def _held(job: int, stored: StoredJob, accepted: AcceptedJob, asker: Submitter) -> dict[str, Value]:
    """The new value of ``held_by``, if the urgency holds or releases the job.

    Raises:
        Refused: ``admin_hold``.
    """
    was_held, is_held = (r.urgency == URGENCY_HOLD for r in (stored.admitted.request, accepted.request))
    if was_held == is_held:
        return {}
    owner, by = stored.admitted.user, None
    if is_held:
        by = holder(owner, stored.held_by, asker)
    else:
        check_release(stored.name(job), owner, stored.held_by, asker)
    return {} if by == stored.held_by else {"held_by": by}


def _eligibility(
    stored: StoredJob, accepted: AcceptedJob, changed: Collection[str], progress: Mapping[Awaited, Progress], now: float
) -> dict[str, Value]:
    """The new values of ``held``, ``blocked_by`` and ``eligible_at``, as far as they change.

    Of all fields, only the urgency holds or releases the job, if it changes to or from 0. An eligible job that stays
    eligible keeps its age.
    """
    held, blocked, eligible_at = stored.held, stored.blocked_by, stored.eligible_at
    was_held, is_held = (r.urgency == URGENCY_HOLD for r in (stored.admitted.request, accepted.request))
    if was_held != is_held:
        held = is_held
    if not CONDITION_FIELDS.isdisjoint(changed):
        was_free = stored.blocked_by is None and "depends_on" not in changed
        before = {} if was_free else {_ITSELF: _ITSELF}  # the prioritizer looks for earlier jobs of the same name
        blocked = blocked_by(_as_blocked(stored, accepted.request, changed), progress, now, before)
    if held or blocked is not None:
        eligible_at = None
    elif eligible_at is None:
        eligible_at = now
    after: dict[str, Value] = {"held": held, "blocked_by": blocked, "eligible_at": eligible_at}
    return {name: value for name, value in after.items() if value != getattr(stored, name)}


_ITSELF = 0
"""The job that is changed, where only one job matters."""


def _as_blocked(stored: StoredJob, request: JobRequest, changed: Collection[str]) -> Blocked:
    by_index = stored.by_index
    if "depends_on" in changed and stored.is_array:
        waits = any(one.type == BY_INDEX for one in request.depends_on)
        by_index = ByIndex(tasks=1, eligible=0, unmet=0, is_known=False) if waits else None
    return Blocked(
        job=_ITSELF,
        held=stored.held,
        begin_at=request.begin_at,
        depends_on=tuple(request.depends_on),
        task=stored.task,
        by_index=by_index,
    )
