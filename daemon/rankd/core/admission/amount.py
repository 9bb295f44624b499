"""What a job may ask of each node: known types, possible amounts, and a share of a core that it is charged for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rankd.core.admission.device_request import read_request
from rankd.core.admission.limit import MAX_KIND_NAME, MAX_KINDS, check_count
from rankd.core.errors import Refused
from rankd.core.model.amount_text import shown_amount
from rankd.core.model.device import is_device_kind
from rankd.core.model.quantity import (
    LARGEST_TOTAL,
    MEMORY,
    VCORE,
    Amount,
    Resources,
    check_node_amount,
)
from rankd.core.model.queue import Partition, walk_queues
from rankd.core.model.setting import Settings
from rankd.core.near_name import cut, unknown

SMALL_SHARE = 100
"""Thousandths of a core. A job that asks for 0 cores gets this share, is limited to it, and is charged for it."""


def asked_amounts(
    given: Mapping[str, Amount], nodes: int, known: Collection[str] | None, *, allow_zero_cores: bool
) -> Resources:
    """The amounts per node that a submission asks for.

    A job that names other types but not ``vcore`` asks for one core. A job that asks for 0 cores, or has empty
    ``resources``, gets :data:`SMALL_SHARE` if that is allowed. ``known``: the types that may be named; None means any.

    Raises:
        Refused: ``too_many``, ``unknown_resource``, ``bad_resources``, ``bad_quantity``, ``zero_cores``.
    """
    check_count("resources", len(given), MAX_KINDS, "types", "ask for fewer")
    for kind in given:
        _check_type(kind, known)
    amounts = read_request(given if VCORE in given or not given else {VCORE: 1, **given})
    for kind, amount in amounts.items():
        _check_amount(kind, amount, nodes)
    if VCORE in amounts:
        return amounts
    if not allow_zero_cores:
        message = (
            "the job asks for 0 cores; ask for some, such as 0.1 (admission.allow_zero_cores is off), "
            "or leave vcore out for 1 core"
        )
        raise Refused("zero_cores", message, "resources.vcore")
    return {VCORE: SMALL_SHARE, **amounts}


def allowed_types(settings: Settings, partitions: Iterable[Partition], of_nodes: Iterable[str]) -> frozenset[str]:
    """The types that jobs may ask for: the configured ones, or by default all types of nodes, queues or prices.

    A price of devices makes no type known: the default has one, also where no node has a GPU.
    """
    configured = settings.admission.resource_types
    if configured is not None:
        return frozenset({VCORE, *configured})
    priced = {kind for kind in settings.priority.fairshare.billing if not is_device_kind(kind)}
    found = {VCORE, MEMORY, *of_nodes, *priced}
    for partition in partitions:
        found.update(kind for limit in partition.limits for kind in limit.maxresources)
        for queue in walk_queues(partition.root):
            found.update(queue.guaranteed, queue.max)
            found.update(kind for limit in queue.limits for kind in limit.maxresources)
            if queue.child_template is not None:
                found.update(queue.child_template.guaranteed, queue.child_template.max)
    return frozenset(found)


def _check_type(kind: str, known: Collection[str] | None) -> None:
    if not kind or len(kind) > MAX_KIND_NAME or not kind.isprintable():
        message = f"a resource type has 1 to {MAX_KIND_NAME} printable characters; '{cut(kind)}' has {len(kind)}"
        raise Refused("bad_resource", message, "resources")
    if known is not None and kind not in known:
        message = f"{unknown('resource type', kind, sorted(known))}; no node, queue or price has this type"
        raise Refused("unknown_resource", message, f"resources.{cut(kind)}")


def _check_amount(kind: str, amount: int, nodes: int) -> None:
    try:
        check_node_amount(kind, amount)
    except ValueError as error:
        raise Refused("bad_quantity", f"{kind}: {error}", f"resources.{kind}") from None
    if amount * nodes > LARGEST_TOTAL:
        each, most = shown_amount(kind, amount), shown_amount(kind, LARGEST_TOTAL)
        message = (
            f"{kind}: {each} on each of {nodes} nodes is more than {most} in all; ask for less, or for fewer nodes"
        )
        raise Refused("bad_quantity", message, f"resources.{kind}")
