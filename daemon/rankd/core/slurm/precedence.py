"""Which of Slurm's limits counts where several name the same: that of the partition's QoS, not that of the user.

Source: Slurm's "Resource Limits": for each limit, only the first one that is set counts: of the partition's QoS, of the
job's QoS, of the user, of the account. In rankd all limits on a queue's path count. So a limit of a user or an account
is written into the queues where it counts, if it does not count in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from rankd.core.slurm.limit import GroupLimit, UserLimit
from rankd.core.slurm.queue import Queue
from rankd.core.slurm.reading import Reading

JOBS = "jobs"
Owner = TypeVar("Owner", UserLimit, GroupLimit)


class Divided(NamedTuple):
    """The queues with the limits that count in them alone, and the limits that count in all queues."""

    queues: tuple[Queue, ...]
    users: tuple[UserLimit, ...]
    groups: tuple[GroupLimit, ...]


def divide(queues: Sequence[Queue], users: Sequence[UserLimit], groups: Sequence[GroupLimit], own: Reading) -> Divided:
    """The limits where Slurm applies them."""
    won = {kind for queue in queues for kind in _set_by_qos(queue)}
    of_users, of_groups = _only(users, lambda kind: kind not in won), _only(groups, lambda kind: kind not in won)
    placed = []
    for queue in queues:
        counts = (won - _set_by_qos(queue)).__contains__
        own_users = _bounded(_only(users, counts), {one.user: one.jobs for one in of_users}, lambda one: one.user)
        own_groups = _bounded(_only(groups, counts), {one.group: one.jobs for one in of_groups}, lambda one: one.group)
        placed.append(msgspec.structs.replace(queue, users=own_users, groups=own_groups))
    named = {kind for of in (users, groups) for one in of for kind in _kinds(one)} & won
    for kind in sorted(named):
        _remark(kind, queues, own)
    partitions = list(dict.fromkeys(queue.partition for queue in queues))
    if len(partitions) > 1 and (users or groups):
        message = f"limits of users and accounts count in each partition by itself: {_listed(partitions)}; in Slurm"
        own.remark(0, f"{message}, all of them count together. rankd has no limit over several partitions")
    return Divided(tuple(placed), of_users, of_groups)


def of_each_user(queue: Queue) -> list[tuple[str, Mapping[str, int], int]]:
    """The amounts and the jobs of each user who has a limit in this queue alone, with the limit for all users in it.

    In rankd, a limit that names the user replaces the one for all users.
    """
    found: list[tuple[str, Mapping[str, int], int]] = []
    for one in queue.users:
        amounts = {**queue.limits.each_user}
        for kind, amount in one.amounts.items():
            amounts[kind] = min(amount, amounts.get(kind, amount))
        jobs = [number for number in (one.jobs, queue.limits.jobs_of_each_user) if number]
        found.append((one.user, amounts, min(jobs, default=0)))
    return found


def _set_by_qos(queue: Queue) -> frozenset[str]:
    """What the partition's QoS limits for all its jobs together, so that users' limits on it do not count there."""
    has_jobs = queue.limits.jobs or queue.limits.jobs_of_each_user
    return frozenset(queue.limits.maximum).union([JOBS] if has_jobs else [])


def _kinds(one: UserLimit | GroupLimit) -> set[str]:
    return {*one.amounts, *([JOBS] if one.jobs else [])}


def _only(limits: Iterable[Owner], wanted: Callable[[str], bool]) -> tuple[Owner, ...]:
    """The parts of the limits that are wanted. An amount of 0 alone would limit nothing, so it is left out."""
    found: list[Owner] = []
    for one in limits:
        amounts = {kind: amount for kind, amount in one.amounts.items() if wanted(kind)}
        jobs = one.jobs if wanted(JOBS) else 0
        if any(amounts.values()) or jobs:
            found.append(msgspec.structs.replace(one, amounts=amounts, jobs=jobs))
    return tuple(found)


def _bounded(limits: Iterable[Owner], above: Mapping[str, int], name: Callable[[Owner], str]) -> tuple[Owner, ...]:
    """The limits of a queue, with the number of jobs from ``above``: a queue may not allow more than the ones above."""
    return tuple(msgspec.structs.replace(one, jobs=one.jobs or above.get(name(one), 0)) for one in limits)


def _remark(kind: str, queues: Iterable[Queue], own: Reading) -> None:
    winners = [queue.name for queue in queues if kind in _set_by_qos(queue)]
    others = [queue.name for queue in queues if kind not in _set_by_qos(queue)]
    message = f"limits of users and accounts on {kind} do not count in {_listed(winners)}: there the limit of the"
    message += " partition's QoS counts, as in Slurm"
    if len(others) > 1:
        message += f"; they count in each of the other queues by itself: {_listed(others)}; to count"
        message += " them together, put these queues below one queue, and the limit there"
    own.remark(0, message)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)[:200]
