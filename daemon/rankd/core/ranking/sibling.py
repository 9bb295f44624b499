"""The children of a parent queue in its order, and which key puts each before the next.

Only for commands that show something. It imports little, so that they start fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal

import msgspec

from rankd.core.model.quantity import Resources
from rankd.core.ranking.queue_key import pending_weight, sort_key

SortKey = Literal["priority", "share", "pending", "name"]

_KEYS: tuple[SortKey, ...] = ("priority", "share", "pending", "name")


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with something pending, with its values in the generation."""

    path: str
    priority: int
    share: float
    pending: Resources


def ordered(
    siblings: Iterable[Sibling], total: Mapping[str, int], *, by_priority: bool
) -> list[tuple[str, SortKey | None]]:
    """The paths of the siblings, the first to be served first, each with the key that puts it before the next.

    The last sibling has None.

    >>> a, b = (Sibling(path=path, priority=5, share=share, pending={}) for path, share in (("a", 0.5), ("b", 0.0)))
    >>> ordered([a, b], {}, by_priority=True)
    [('b', 'share'), ('a', None)]
    """
    amounts = dict(total)
    keyed = sorted(
        sort_key(own.priority, own.share, pending_weight(own.pending, amounts), own.path, by_priority=by_priority)
        for own in siblings
    )
    decided = [
        next(name for name, one, other in zip(_KEYS, first, second, strict=True) if one != other)
        for first, second in pairwise(keyed)
    ]
    return list(zip([key[-1] for key in keyed], [*decided, None], strict=True)) if keyed else []
