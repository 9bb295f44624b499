"""The rules for the queues of a tree together: guarantees, maxima, maxapplications, and the effect of offsets.

"At most" compares only the resource types that the larger side defines.

Source: YuniKorn 1.8, ``configvalidator.go``. A maximum or guarantee with only zeros means the same as none, also where
YuniKorn's validator and its scheduler disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.model.amount_text import compared
from rankd.core.model.quantity import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rankd.config.queue_draft import QueueDraft
    from rankd.config.yaml_reader import FilePlace
    from rankd.core.model.queue import QueueProperties

HIGHEST_USER_PRIORITY = 1_000_000_000
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def check_queue_rules(root: QueueDraft) -> None:
    """Note every broken rule between the queues of one tree, and offsets that lead too far."""
    _guaranteed(root, {})
    _check_maxapplications(root)
    _shift(root)


def excess(amounts: Mapping[str, int], bound: Mapping[str, int]) -> str:
    """A text of the types for which the amounts are over the bound; empty if there are none."""
    over = sorted(resource for resource in amounts if amounts[resource] > bound.get(resource, amounts[resource]))
    pairs = [(name, *compared(name, amounts[name], bound[name])) for name in over]
    return ", ".join(f"{amount} of {name}, over {most}" for name, amount, most in pairs)


def least(first: Mapping[str, int], second: Mapping[str, int]) -> Resources:
    """The component-wise minimum. A type that one side does not define has the other side's amount."""
    return {**first, **{name: min(amount, first.get(name, amount)) for name, amount in second.items()}}


def _guaranteed(queue: QueueDraft, above: Resources) -> Resources:
    """Check a subtree under the nearest maxima above it; returns its part of its parent's sum."""
    resources = queue.fields["resources"]
    _forbid(resources.entry("guaranteed"), queue.guaranteed, queue.max, "guarantees", "its own max")
    _forbid(resources.entry("max"), queue.max, above, "may use", "the nearest max above")
    maximum = least(queue.max, above)
    total = _summed(_guaranteed(child, maximum) for child in queue.queues)
    blamed = queue.place if queue.place.given else queue.fields["queues"]
    _forbid(blamed, total, queue.guaranteed, "has children that together are guaranteed", "its own guarantee")
    _forbid(blamed, total, maximum, "has children that together are guaranteed", "its max")
    return queue.guaranteed or total


def _forbid(place: FilePlace, amounts: Resources, bound: Resources, does: str, what: str) -> None:
    too_much = excess(amounts, bound)
    if too_much:
        place.error(f"this queue {does} more than {what}: {too_much}; lower the one or raise the other")


def _summed(all_amounts: Iterable[Resources]) -> Resources:
    total: Resources = {}
    for amounts in all_amounts:
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _check_maxapplications(queue: QueueDraft) -> None:
    for child in queue.queues:
        allowed, own = queue.maxapplications, child.maxapplications
        if allowed and not 0 < own <= allowed:
            child.fields["maxapplications"].error(
                f"maxapplications is {own or 'not set'}, but '{queue.name}' above has {allowed}; lower it"
            )
        _check_maxapplications(child)


def _shift(queue: QueueDraft) -> tuple[int, int]:
    """The lowest and highest amount by which this subtree's priorities are raised above it; warns on the way up."""
    shifts = [_shift(child) for child in queue.queues]
    if queue.template is not None:
        shifts.append(_moved((0, 0), queue.template.properties, queue.template_offset))
    low = min((shift[0] for shift in shifts), default=0)
    high = max((shift[1] for shift in shifts), default=0)
    return _moved((low, high), queue.properties.values, queue.properties.offset)


def _moved(below: tuple[int, int], properties: QueueProperties, place: FilePlace | None) -> tuple[int, int]:
    offset = properties.priority_offset
    if properties.priority_policy == "fence":
        low = high = offset
    else:
        low, high = below[0] + offset, below[1] + offset
    if place is not None and offset:
        _warn_offset(place, offset, low, high)
    return low, high


def _warn_offset(place: FilePlace, offset: int, low: int, high: int) -> None:
    if (offset > 0 and high + HIGHEST_USER_PRIORITY > _INT32_MAX) or (
        offset < 0 and low - HIGHEST_USER_PRIORITY < _INT32_MIN
    ):
        place.warn(
            "offset_clamps",
            f"with the offset {offset} priorities can leave 32 bits, and are clamped, so that different ones "
            "look equal; use one nearer to 0",
        )
    elif offset > 0 and high > HIGHEST_USER_PRIORITY:
        place.warn(
            "offset_lifts",
            f"the offset {offset} lifts users' jobs over {HIGHEST_USER_PRIORITY}, among system classes; "
            "use a smaller one",
        )
