"""Updating a pending job: the changed request is admitted again, by the same rules as a new one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import msgspec

from rankd.core.admission.admit import AdmissionTables, Submitter
from rankd.core.admission.dependency import Blocked, Progress, blocked_by, check_known
from rankd.core.admission.job_size import check_size
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.readmission import CLASS_FIELDS, AdmittedJob, readmit
from rankd.core.change.job_change import Value
from rankd.core.errors import Refused, admins_only
from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.job import CHANGEABLE_FIELDS, URGENCY_HOLD, AcceptedJob, Dependency, JobRequest, State

CONDITION_FIELDS = frozenset({"begin_at", "depends_on"})
"""Fields that may keep a job from being eligible."""

_COMPARED_FIELDS = tuple(name for name in CHANGEABLE_FIELDS if name not in {"priority", "preemption_policy"})
"""Fields whose change an event records; of a class it records the number and the policy that were resolved."""

_encode = msgspec.json.Encoder().encode


class Update(Protocol):
    """The fields that are to change; UNSET: the job keeps its own."""

    @property
    def depends_on(self) -> list[Dependency] | msgspec.UnsetType:
        """Which jobs it waits for."""

    @property
    def fixed_priority(self) -> int | msgspec.UnsetType | None:
        """The priority that an administrator fixes; None: the computed one counts again."""

    def given(self) -> dict[str, object]:
        """The fields of the job's request that are to change, by name."""


class Task(NamedTuple):
    """What to change, who asks, and the tables and the time (UTC seconds) that it is decided by."""

    update: Update
    asker: Submitter
    tables: AdmissionTables
    now: float


class StoredJob(NamedTuple):
    """What the records say about a job that is to be changed."""

    revision: int
    state: State
    held: bool
    blocked_by: str | None
    eligible_at: float | None
    fixed_priority: int | None
    admitted: AdmittedJob


class AwaitedJobs(NamedTuple):
    """The jobs in dependencies: how far they are; and the jobs that these wait for themselves, with them included."""

    progress: Mapping[int, Progress]
    waited_for: Collection[int]


class Verdict(NamedTuple):
    """What an update makes of a job: ``changes`` are (before, after) by field; ``request`` is JSON.

    ``eligibility``: of the columns ``held``, ``blocked_by`` and ``eligible_at``, those that change. A job that has all
    the values already has no ``changes``.
    """

    job: int
    stored: StoredJob
    accepted: AcceptedJob
    request: str
    changes: Mapping[str, tuple[object, object]]
    eligibility: Mapping[str, Value]

    def event_detail(self) -> dict[str, object]:
        """The fields that change, and what that does to the job's being held and eligible."""
        eligibility = {name: (getattr(self.stored, name), after) for name, after in self.eligibility.items()}
        pairs = {**self.changes, **eligibility}
        return {name: {"before": before, "after": after} for name, (before, after) in pairs.items()}


def check_update(update: Update, asker: Submitter) -> None:
    """Check that this asker may change these fields, whatever the job.

    Raises:
        Refused: ``nothing_to_update``, ``class_not_named``, ``admins_only`` (a fixed priority),
            ``bad_fixed_priority``.
    """
    given, fixed = update.given(), update.fixed_priority
    if not given and fixed is msgspec.UNSET:
        raise Refused("nothing_to_update", f"name a field to change: {', '.join(CHANGEABLE_FIELDS)}, fixed_priority")
    if "priority_class" not in given and not CLASS_FIELDS.isdisjoint(given):
        message = "priority and preemption_policy are the class's; name it in priority_class"
        raise Refused("class_not_named", message, "priority_class")
    if fixed is not msgspec.UNSET and not asker.privileged:
        raise admins_only("fixing a job's priority", asker.user, "fixed_priority")
    if isinstance(fixed, int) and not INT32_MIN <= fixed <= INT32_MAX:
        message = f"{fixed} is not a valid priority; give {INT32_MIN} to {INT32_MAX}"
        raise Refused("bad_fixed_priority", message, "fixed_priority")


def decide_update(
    job: int, stored: StoredJob | None, given: Mapping[str, object], task: Task, awaited: AwaitedJobs
) -> Verdict:
    """What the update makes of a job. ``given`` is what ``task.update.given()`` gives: the same for many jobs.

    Raises:
        Refused: ``unknown_job``, ``not_owner``, ``not_pending``, ``unknown_dependency``, ``bad_dependency``,
            ``too_large``; as :func:`rankd.core.admission.readmission.readmit`.
    """
    known = _changeable(job, stored, task.asker)
    if task.update.depends_on is not msgspec.UNSET:
        check_known(task.update.depends_on, awaited.progress)
    if job in awaited.waited_for:
        raise Refused("bad_dependency", f"job {job} would wait for itself; name other jobs", "depends_on")
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
        eligibility=_eligibility(known, accepted, changes.keys(), awaited.progress, task.now),
    )


def _changeable(job: int, stored: StoredJob | None, asker: Submitter) -> StoredJob:
    if stored is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    if stored.admitted.user != asker.user and not asker.privileged:
        raise Refused("not_owner", f"job {job} belongs to '{stored.admitted.user}'", "id", status=403)
    if stored.state is not State.PENDING:
        raise Refused("not_pending", f"job {job} is {stored.state}; only pending jobs can be changed", status=409)
    return stored


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
    """(before, after) by field, of those that differ; amounts as they were written."""
    before, after = stored.admitted.request, accepted.request
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in _COMPARED_FIELDS}
    old = stored.admitted.resolved
    pairs["priority_class"] = (old.name, resolved.name)
    pairs["class_value"] = (old.class_value, resolved.class_value)
    pairs["preemption_policy"] = (old.preemption_policy, resolved.preemption_policy)
    if update.fixed_priority is not msgspec.UNSET:
        pairs["fixed_priority"] = (stored.fixed_priority, update.fixed_priority)
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "depends_on" in changed:
        changed["depends_on"] = (msgspec.to_builtins(before.depends_on), msgspec.to_builtins(after.depends_on))
    return changed


def _eligibility(
    stored: StoredJob, accepted: AcceptedJob, changed: Collection[str], progress: Mapping[int, Progress], now: float
) -> dict[str, Value]:
    """What keeps the job from being eligible from now on.

    Only a change of the urgency to or from 0 holds or releases; other fields leave an eligible job's age alone.
    """
    held, blocked, eligible_at = stored.held, stored.blocked_by, stored.eligible_at
    was_held, is_held = (r.urgency == URGENCY_HOLD for r in (stored.admitted.request, accepted.request))
    if was_held != is_held:
        held = is_held
    if not CONDITION_FIELDS.isdisjoint(changed):
        begin_at, depends_on = accepted.request.begin_at, tuple(accepted.request.depends_on)
        blocked = blocked_by(Blocked(job=0, held=held, begin_at=begin_at, depends_on=depends_on), progress, now)
    if held or blocked is not None:
        eligible_at = None
    elif eligible_at is None:
        eligible_at = now
    after: dict[str, Value] = {"held": held, "blocked_by": blocked, "eligible_at": eligible_at}
    return {name: value for name, value in after.items() if value != getattr(stored, name)}
