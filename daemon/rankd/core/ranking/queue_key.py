"""The keys by which queues are ordered beside their priority: fair share, pending, and the priority itself.

Source: YuniKorn's fair queue sorting; pending is compared by a sum of fractions, which is a total order
(YuniKorn's "greater in every type" can cycle).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import QueueProperties


def lifted_priority(best: int | None, properties: QueueProperties) -> int | None:
    """A queue's priority as its parent sees it, from the best pending job or child; None where nothing is pending."""
    if best is None:
        return None
    if properties.priority_policy == "fence":
        return properties.priority_offset
    return max(INT32_MIN, min(INT32_MAX, best + properties.priority_offset))


def fair_share(used: Resources, guaranteed: Resources, effective_max: Resources) -> float:
    """Largest fraction of used over guaranteed (else the effective maximum), type by type.

    A denominator of 0 counts 1 where anything is used. Types without either are skipped; nothing used: 0.
    """
    return max((_fraction(used[k], k, guaranteed, effective_max) for k in used if used[k] > 0), default=0.0)


def _fraction(amount: int, resource: str, guaranteed: Resources, effective_max: Resources) -> float:
    denominator = guaranteed.get(resource, effective_max.get(resource))
    if denominator is None:
        return 0.0
    return amount / denominator if denominator > 0 else 1.0


def pending_weight(pending: Resources, total: Resources) -> float:
    """Sum over types of pending / the partition's total; types without total are left out."""
    return sum(pending[k] / total[k] for k in sorted(pending) if total.get(k, 0) > 0)


def effective_max(maxima: Iterable[Mapping[str, int]], total: Mapping[str, int]) -> Resources:
    """The component-wise minimum of the maxima down a path, beginning with the partition's total."""
    least = dict(total)
    for maximum in maxima:
        for resource, amount in maximum.items():
            least[resource] = min(amount, least.get(resource, amount))
    return least


def sort_key(
    priority: int | None, share: float, pending: float, name: str, *, by_priority: bool
) -> tuple[float, float, float, str]:
    """Ascending key of a child inside its parent: priority (descending), fair share, pending (larger first), name."""
    first = -(priority if priority is not None else INT32_MIN) if by_priority else 0
    return (first, share, -pending, name)
