"""Limits of resources and jobs: ``GrpTRES=cpu=64,gres/gpu:a100=8``, ``GrpJobs=10`` and others.

A limit of rankd's belongs to a queue, a user or a group. So these have an equivalent:

- of the QoS of a partition: ``GrpTRES`` and ``GrpJobs`` are maxima of its queue, ``MaxTRESPerUser`` and
  ``MaxJobsPerUser`` a limit for each user there;
- of a user with one account: ``GrpTRES``, ``GrpJobs`` and ``MaxJobs`` are a limit for this user in all queues;
- of an account whose users have no other account: ``GrpTRES`` and ``GrpJobs`` are a limit for the group of these users.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from rankd.core.model.association import Association
from rankd.core.model.device import is_model, model_of
from rankd.core.model.quantity import LARGEST_TOTAL, MEMORY, VCORE
from rankd.core.slurm.reading import Limit, Reading
from rankd.core.slurm.tres import amount_of, parse_tres, resource_of

_USER_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9_:#/.@-]*[$]?")
_REMOVED = -1
"""The number with which Slurm removes a limit."""
_MOST_JOBS = 2**31
Amounts = dict[str, int]


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue: for all its jobs together, and for each user. A number of jobs is 0 if it has no limit."""

    maximum: Amounts = {}
    each_user: Amounts = {}
    jobs: int = 0
    jobs_of_each_user: int = 0


class UserLimit(msgspec.Struct, frozen=True):
    """A limit for one user in all queues. ``jobs``: 0 without a limit."""

    user: str
    amounts: Amounts
    jobs: int = 0


class GroupLimit(msgspec.Struct, frozen=True):
    """A limit for the users of an account together, who are a group, in all queues."""

    group: str
    users: tuple[str, ...]
    amounts: Amounts
    jobs: int = 0


def queue_limits(qos: str | None, of_qos: Iterable[tuple[Limit, Reading]]) -> QueueLimits:
    """The limits of a queue whose partition has this QoS. What can't be kept gets a remark."""
    maximum: Amounts = {}
    each_user: Amounts = {}
    jobs = {False: 0, True: 0}
    for limit, reading in of_qos:
        if qos is None or limit.owner != qos:
            continue
        if limit.is_of_jobs:
            jobs[limit.is_per_user] = read_jobs(limit, f"QoS '{qos}'", reading)
        else:
            kept = read_amounts(limit, f"QoS '{qos}'", reading)
            (each_user if limit.is_per_user else maximum).update(kept)
    bounded = {kind: min(amount, maximum.get(kind, amount)) for kind, amount in each_user.items()}
    of_each = min(jobs[True], jobs[False] or jobs[True])
    return QueueLimits(maximum=maximum, each_user=bounded, jobs=jobs[False], jobs_of_each_user=of_each)


def remark_unused(used: set[str], of_qos: Iterable[tuple[Limit, Reading]]) -> None:
    """Remark on limits of QoS that no partition has."""
    for limit, reading in of_qos:
        if limit.owner not in used:
            message = f"QoS '{limit.owner}': no equivalent in rankd for {limit}, as it is the QoS of no partition"
            reading.remark(limit.line, f"{message}; write a limit for a queue, its users or a group into queues.yaml")


def user_limits(
    associations: Iterable[Association], of_users: Iterable[tuple[Limit, Reading]]
) -> tuple[UserLimit, ...]:
    """The limits of users with one account. Others get a remark: in rankd they would add up all their accounts."""
    accounts = Counter(entry.user for entry in associations if entry.user is not None)
    found: dict[str, UserLimit] = {}
    for limit, reading in of_users:
        if not _USER_NAME.fullmatch(limit.owner):
            reading.remark(limit.line, f"user '{limit.owner}': {limit} is left out: a limit can't have this name")
        elif accounts[limit.owner] != 1:
            message = f"user '{limit.owner}': no equivalent in rankd for {limit}, since the user has several accounts"
            reading.remark(limit.line, f"{message}; write a limit for all of them into queues.yaml")
        else:
            known = found.get(limit.owner, UserLimit(limit.owner, {}))
            amounts, jobs = read_limit(limit, f"user '{limit.owner}'", reading, (known.amounts, known.jobs))
            if amounts or jobs:
                found[limit.owner] = UserLimit(limit.owner, amounts, jobs)
    return tuple(found.values())


def read_limit(limit: Limit, subject: str, reading: Reading, known: tuple[Amounts, int]) -> tuple[Amounts, int]:
    """The amounts and the number of jobs of an owner, with this limit added to the ones that are known."""
    amounts, jobs = known
    if limit.is_of_jobs:
        found = read_jobs(limit, subject, reading)
        return amounts, min(found, jobs) if found and jobs else found or jobs
    return {**amounts, **read_amounts(limit, subject, reading)}, jobs


def read_jobs(limit: Limit, subject: str, reading: Reading) -> int:
    """The most jobs at once; 0 if there is no limit, or if it can't be kept, with a remark."""
    if limit.text.strip() == str(_REMOVED):
        return 0
    number = reading.whole(limit.line, f"{limit.title} of {subject}", limit.text)
    if not 0 < number < _MOST_JOBS:
        reading.remark(limit.line, f"{subject}: no equivalent in rankd for {limit}; close the queue or access instead")
        return 0
    return number


def read_amounts(limit: Limit, subject: str, reading: Reading) -> Amounts:
    """The amounts that rankd can limit. Nodes, licences and others get a remark."""
    try:
        given = parse_tres(limit.text)
    except ValueError as error:
        reading.remark(limit.line, f"{subject}: {limit.title} is left out: {error}")
        return {}
    kept: Amounts = {}
    for tres, (number, suffix) in given.items():
        kind = resource_of(tres)
        amount = None if kind is None else amount_of(kind, number, suffix)
        if number == _REMOVED:
            continue
        if kind is None or amount is None or not 0 <= amount <= LARGEST_TOTAL or not _is_kind(kind):
            reading.remark(limit.line, f"{subject}: no equivalent in rankd for {limit.title}={tres}={number:g}{suffix}")
        else:
            kept[kind] = amount
    if kept and not any(kept.values()):
        reading.remark(limit.line, f"{subject}: no equivalent in rankd for {limit}; 0 alone limits nothing there")
        return {}
    return kept


def _is_kind(kind: str) -> bool:
    model = model_of(kind)
    return kind in (VCORE, MEMORY) or (is_model(model) if model is not None else kind.isprintable())
