"""How much a filter may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.wire.message import JobFilter

MOST_NAMES = 1_000
LONGEST_NAME = 1_024
_LISTS = ("users", "accounts", "queues", "partitions", "states", "names", "qos")


def check_size(wanted: JobFilter) -> None:
    """Check the number of a filter's names, and their lengths.

    Raises:
        Refused: ``too_many``, ``too_long``.
    """
    for field in _LISTS:
        names = getattr(wanted, field) or ()
        if len(names) > MOST_NAMES:
            message = f"{field} has {len(names)} names, {MOST_NAMES} are allowed; ask for some at a time"
            raise Refused("too_many", message, field)
        longest = max(map(len, names), default=0)
        if longest > LONGEST_NAME:
            message = f"{field} has a name of {longest} characters, {LONGEST_NAME} are allowed; shorten it"
            raise Refused("too_long", message, field)
