"""Starts that have to wait: an allocation that has not ended here still holds their devices. No I/O.

A node that was lost and came back ends what it runs. The scheduler has given its devices to other jobs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rankd.services.agent.ledger import Ledger
from rankd.wire.message import StartJob


class Held(NamedTuple):
    """An allocation that has to wait, a device of its, and the allocation that holds the device."""

    allocation: int
    device: str
    holder: int


def sort_out(starts: Iterable[StartJob], ledger: Ledger[int]) -> tuple[dict[int, StartJob], list[Held]]:
    """The starts that the agent has not seen, by allocation, and those among them that have to wait."""
    fresh = {start.allocation: start for start in starts if not ledger.has_seen(start.allocation)}
    holders: Mapping[str, int] = ledger.holders() if any(start.device_ids for start in fresh.values()) else {}
    held = []
    for start in list(fresh.values()):
        if device := next((id_ for id_ in start.device_ids if id_ in holders), None):
            held.append(Held(start.allocation, device, holders[device]))
            del fresh[start.allocation]
    return fresh, held


def still_held(held: Held) -> str:
    """Why this allocation can't be started yet."""
    text = f"allocation {held.allocation} has to wait: allocation {held.holder}, which has not ended here, holds"
    return f"{text} device {held.device}"
