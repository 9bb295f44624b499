"""Limits of trackable resources: ``GrpTRES=cpu=64,gres/gpu:a100=8`` and ``MaxTRESPerUser`` of associations and QoS.

A limit of rankd's belongs to a queue, a user or a group. So these have an equivalent:

- of the QoS of a partition: ``GrpTRES`` is the maximum of its queue, ``MaxTRESPerUser`` a limit for each user there;
- of a user with one account: ``GrpTRES`` is a limit for this user in all queues.
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
Amounts = dict[str, int]


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue: for all its jobs together, and for each user."""

    maximum: Amounts = {}
    each_user: Amounts = {}


class UserLimit(msgspec.Struct, frozen=True):
    """A limit for one user in all queues."""

    user: str
    amounts: Amounts


def queue_limits(qos: str | None, of_qos: Iterable[tuple[Limit, Reading]]) -> QueueLimits:
    """The limits of a queue whose partition has this QoS. What can't be kept gets a remark."""
    maximum: Amounts = {}
    each_user: Amounts = {}
    for limit, reading in of_qos:
        if qos is not None and limit.owner == qos:
            kept = _amounts(limit, f"QoS '{qos}'", reading)
            (maximum if limit.key == "grptres" else each_user).update(kept)
    bounded = {kind: min(amount, maximum.get(kind, amount)) for kind, amount in each_user.items()}
    return QueueLimits(maximum=maximum, each_user=bounded)


def remark_unused(used: set[str], of_qos: Iterable[tuple[Limit, Reading]]) -> None:
    """Remark on limits of QoS that no partition has."""
    for limit, reading in of_qos:
        if limit.owner not in used:
            message = f"QoS '{limit.owner}': no equivalent in rankd for {limit}, as it is the QoS of no partition"
            reading.remark(limit.line, message)


def user_limits(
    associations: Iterable[Association], of_users: Iterable[tuple[Limit, Reading]]
) -> tuple[UserLimit, ...]:
    """The limits of users with one account. Others get a remark: in rankd they would add up all their accounts."""
    accounts = Counter(entry.user for entry in associations if entry.user is not None)
    found: dict[str, Amounts] = {}
    for limit, reading in of_users:
        if not _USER_NAME.fullmatch(limit.owner):
            reading.remark(limit.line, f"user '{limit.owner}': {limit} is left out: a limit can't have this name")
        elif accounts[limit.owner] != 1:
            message = f"user '{limit.owner}': no equivalent in rankd for {limit}, since the user has several accounts"
            reading.remark(limit.line, message)
        elif kept := _amounts(limit, f"user '{limit.owner}'", reading):
            found.setdefault(limit.owner, {}).update(kept)
    return tuple(UserLimit(user, amounts) for user, amounts in found.items())


def _amounts(limit: Limit, subject: str, reading: Reading) -> Amounts:
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
