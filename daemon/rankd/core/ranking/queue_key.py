"""The keys that decide the order of queues: priority, fair share, pending.

Source: YuniKorn's fair queue sorting. Here pending is compared by a sum of fractions, which is a total order.
(YuniKorn's "greater in every type" can be cyclic.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import QueueProperties


def lifted_priority(best: int | None, properties: QueueProperties) -> int | None:
    """The priority that a queue shows its parent. ``best``: of its best pending job or child; None if there is none."""
    if best is None:
        return None
    if properties.priority_policy == "fence":
        return properties.priority_offset
    return max(INT32_MIN, min(INT32_MAX, best + properties.priority_offset))


def fair_share(used: Resources, guaranteed: Resources, effective_max: Resources) -> float:
    """The largest fraction of any type: used divided by guaranteed, or by the effective maximum without a guarantee.

    If the divisor is 0 and anything is used, the fraction is 1. Types without a divisor are skipped. Without usage the
    result is 0.
    """
    return max((_fraction(used[k], k, guaranteed, effective_max) for k in used if used[k] > 0), default=0.0)


def _fraction(amount: int, resource: str, guaranteed: Resources, effective_max: Resources) -> float:
    denominator = guaranteed.get(resource, effective_max.get(resource))
    if denominator is None:
        return 0.0
    return amount / denominator if denominator > 0 else 1.0


def pending_weight(pending: Resources, total: Resources) -> float:
    """The sum of pending / the partition's total of all types. Types without a total are left out."""
    return sum(pending[k] / total[k] for k in sorted(pending) if total.get(k, 0) > 0)


def effective_max(maxima: Iterable[Mapping[str, int]], total: Mapping[str, int]) -> Resources:
    """The minimum of the maxima on a path and of the partition's total, for each type."""
    least = dict(total)
    for maximum in maxima:
        for resource, amount in maximum.items():
            least[resource] = min(amount, least.get(resource, amount))
    return least


def sort_key(
    priority: int | None, share: float, pending: float, name: str, *, by_priority: bool
) -> tuple[float, float, float, str]:
    """The sort key of a child in its parent: highest priority, smallest fair share, largest pending, name."""
    first = -(priority if priority is not None else INT32_MIN) if by_priority else 0
    return (first, share, -pending, name)
