"""Groups of devices: those that fast links join, or else those of the same memory node of the machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence


def groups_of(devices: Sequence[str], links: Iterable[tuple[str, Hashable]], near: Mapping[str, int]) -> dict[str, int]:
    """The number of each device's group, counted in the order of ``devices``.

    ``links``: a device and what one of its links leads to: another device, or a switch. Devices that reach each other
    over links are one group. ``near``: the memory node (NUMA) of a device, by which devices without links are grouped.

    >>> groups_of(["a", "b", "c", "d"], [("a", "c"), ("c", "a")], {"b": 1, "d": 1})
    {'a': 0, 'b': 1, 'c': 0, 'd': 1}
    """
    above: dict[Hashable, Hashable] = {}

    def top(place: Hashable) -> Hashable:
        while above.get(place, place) != place:
            place = above[place]
        return place

    linked: set[Hashable] = set()
    for device, other in links:
        linked |= {device, other}
        if top(device) != top(other):
            above[top(other)] = top(device)
    keys = [("link", top(device)) if device in linked else ("node", near.get(device, 0)) for device in devices]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return {device: numbers[key] for device, key in zip(devices, keys, strict=True)}
