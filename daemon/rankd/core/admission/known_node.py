"""The nodes that the administrator knows, and what each may offer at most. A node does not decide that itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.device import GPU, Device, in_lower_case, in_order, kind_of
from rankd.core.model.node_holder import NODE_NOT_KNOWN
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import Amount, parse_resources

Offer = Mapping[str, Amount]
MOST_NAMED = 5


class Bounded(NamedTuple):
    """What a node counts with, and what was taken off its offer, in words. Without that, ``cuts`` is empty."""

    resources: dict[str, Amount]
    cuts: str = ""
    devices: Sequence[Device] = ()


class KnownNodes:
    """The nodes of ``[nodes] known``: lists of names, and the most that each of their nodes may offer."""

    def __init__(self, known: Mapping[str, Offer]) -> None:
        self._most = {
            name: {in_lower_case(kind): amount for kind, amount in most.items()}
            for names, most in known.items()
            for name in unfold(names)
        }

    def bounded(self, node: str, offered: Offer, devices: Sequence[Device] = ()) -> Bounded:
        """What this node may count with. Types that its entry does not name do not count; an empty entry allows all.

        Raises:
            Refused: ``node_not_known``.
        """
        if not self._most:
            return Bounded(dict(offered), devices=tuple(devices))
        if (most := self._most.get(node)) is None:
            message = (
                f"this site does not know a node '{node}': add it to [nodes] known in rankd.toml and reload, or give"
                " the agent another --name"
            )
            raise Refused(NODE_NOT_KNOWN, message, "node", status=403)
        if not most:
            return Bounded(dict(offered), devices=tuple(devices))
        amounts, limits = parse_resources(offered), parse_resources(most)
        kept = {
            kind: amount if amounts[kind] <= limits[kind] else most[kind]
            for kind, amount in offered.items()
            if kind in limits
        }
        counted = _counted(devices, limits)
        left = f"{len(counted)} of {len(devices)} devices" if len(counted) < len(devices) else ""
        return Bounded(kept, ", ".join(filter(None, [_cuts(offered, most, kept), left])), tuple(counted))


def _counted(devices: Sequence[Device], most: Mapping[str, int]) -> list[Device]:
    """The first devices by index, as many as the entry allows: of each model that it names, and in all."""
    counted: list[Device] = []
    for device in in_order(devices):
        bounds = [kind for kind in (GPU, kind_of(device.model)) if kind in most]
        same = {GPU: len(counted), kind_of(device.model): sum(one.model == device.model for one in counted)}
        if bounds and all(same[kind] < most[kind] for kind in bounds):
            counted.append(device)
    return counted


def _cuts(offered: Offer, most: Offer, kept: Offer) -> str:
    """``vcore 64 of 128, no gpu (4)``."""
    cut = [
        f"{kind} {most[kind]} of {amount}" if kind in most else f"no {kind} ({amount})"
        for kind, amount in offered.items()
        if kept.get(kind) != amount
    ]
    more = f" and {len(cut) - MOST_NAMED} more" if len(cut) > MOST_NAMED else ""
    return ", ".join(cut[:MOST_NAMED]) + more
