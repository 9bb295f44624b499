"""Whether the limits of users and groups would ever allow a job to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.errors import Refused
from rankd.core.model.amount_text import compared
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import limits_of

QUEUE = "queue "
"""The beginning of the name of a queue's maxima, in :func:`bounds_of`."""


class Sized(Protocol):
    """What asks for nodes: a request, or a job of a document."""

    @property
    def nodes(self) -> int:
        """The most nodes."""

    @property
    def min_nodes(self) -> int | None:
        """The fewest nodes; None if they are ``nodes``."""


def check_user_limits(
    request: Sized, resources: Mapping[str, int], queue: QueueEntry, user: str, groups: Sequence[str]
) -> None:
    """Check that the job alone is not above a limit of its user, or of one of the user's groups.

    Raises:
        Refused: ``user_limit``, with the limit and its value.
    """
    if not queue.limits:
        return
    least = request.nodes if request.min_nodes is None else request.min_nodes
    for path, limits in queue.limits:
        for what, name, limit in limits_of(limits, user, groups):
            _check(resources, least, limit.maxresources, f"{what} {name} in {path}")


def bounds_of(queue: QueueEntry, user: str, groups: Sequence[str]) -> tuple[tuple[str, Resources], ...]:
    """The smallest maxima on the queue's path, and the limits of the user and the groups, each with its name."""
    found = [(f"{QUEUE}{queue.path}", queue.maximum)] if queue.maximum else []
    for path, limits in queue.limits:
        of_path = limits_of(limits, user, groups)
        found += [(f"{what} {name} in {path}", one.maxresources) for what, name, one in of_path if one.maxresources]
    return tuple(found)


def _check(resources: Mapping[str, int], nodes: int, most: Resources, whose: str) -> None:
    for kind, amount in resources.items():
        if kind in most and amount * nodes > most[kind]:
            asked, limit = compared(kind, amount * nodes, most[kind])
            message = (
                f"the job asks for {asked} of {kind}, but the limit of {whose} is {limit}; ask for less, or name"
                " another queue"
            )
            raise Refused("user_limit", message, "resources")
