"""Which free devices of a node a job gets: by model, then by group, then by index. The rule is exact and total.

Sets of devices are integers: bit i is the node's device i, in the order of their indices. Nodes whose devices have the
same models and groups share one layout, and choices are remembered in it. So a choice usually costs one look-up.

1. Model. A model that is named is used. Without a name, models are ordered by price (ascending), by their number of
   free devices (descending), and by name. The first one with enough free devices is used. If there is none, devices of
   several models are taken in this order.
2. Group, of one model. Of the groups that hold all: the one with the fewest devices, then with the fewest free devices
   of any model. If no group holds all, the fewest groups are used.
3. Index. The devices whose indices, ascending, compare lowest one by one.

Several models are chosen one after the other. What is chosen for one model is not free for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankd.core.model.device import GPU, Device, in_order, kind_of
from rankd.core.model.quantity import Resources

Asked = tuple[tuple[str | None, int], ...]
"""The number of devices of each model that a job asks for, by name. The model None means any."""
Prices = tuple[float, ...]
"""The price of each model of a layout."""

_MOST_REMEMBERED = 65_536


class DeviceLayout:
    """The models and groups of a node's devices. ``models``: the names, ascending."""

    def __init__(self, devices: Sequence[Device]) -> None:
        listed = in_order(devices)
        self.n_devices = len(listed)
        self.models = tuple(sorted({device.model for device in listed}))
        self.of_model = {model: _mask(device.model == model for device in listed) for model in self.models}
        self.groups = [
            _mask(device.group == group for device in listed) for group in sorted({one.group for one in listed})
        ]
        self._chosen: dict[tuple[int, Asked, Prices], int | None] = {}
        self._counted: dict[int, Resources] = {}

    def choose(self, free: int, asked: Asked, prices: Prices) -> int | None:
        """The devices that a job gets of those in ``free``. None if there are not enough."""
        key = (free, asked, prices)
        if key not in self._chosen:
            if len(self._chosen) >= _MOST_REMEMBERED:
                self._chosen.clear()
            self._chosen[key] = self._choose(free, asked, prices)
        return self._chosen[key]

    def counted(self, chosen: int) -> Resources:
        """The number of devices in a set, in all and of each model in it. Do not change the result."""
        found = self._counted.get(chosen)
        if found is None:
            if len(self._counted) >= _MOST_REMEMBERED:
                self._counted.clear()
            numbers = {model: (chosen & mask).bit_count() for model, mask in self.of_model.items()}
            amounts = {GPU: chosen.bit_count()} | {kind_of(model): number for model, number in numbers.items()}
            found = self._counted[chosen] = {kind: amount for kind, amount in amounts.items() if amount}
        return found

    def _choose(self, free: int, asked: Asked, prices: Prices) -> int | None:
        chosen = 0
        for model, number in asked:
            named = self._of_any(free & ~chosen, number, prices) if model is None else [(model, number)]
            for name, part in named:
                own = free & ~chosen & self.of_model.get(name, 0)
                if own.bit_count() < part:
                    return None
                chosen |= self._of_one(own, free & ~chosen, part)
        return chosen if chosen.bit_count() == sum(number for _, number in asked) else None

    def _of_any(self, free: int, number: int, prices: Prices) -> list[tuple[str, int]]:
        """How many devices of each model a job gets that names none."""
        own = {model: (free & mask).bit_count() for model, mask in self.of_model.items()}
        price = dict(zip(self.models, prices, strict=True))
        order = sorted(self.models, key=lambda model: (price[model], -own[model], model))
        for model in order:
            if own[model] >= number:
                return [(model, number)]
        parts, left = [], number
        for model in order:
            part = min(left, own[model])
            parts.append((model, part))
            left -= part
        return [(model, part) for model, part in parts if part]

    def _of_one(self, own: int, free: int, number: int) -> int:
        """``number`` devices of those in ``own``, which are the free ones of a model. ``free``: those of any model."""
        holding = [group for group in self.groups if (group & own).bit_count() >= number]
        if not holding:
            return self._spread(own, number)
        best = min(
            holding,
            key=lambda group: (group.bit_count(), (group & free).bit_count(), places(_lowest(group & own, number))),
        )
        return _lowest(best & own, number)

    def _spread(self, own: int, number: int) -> int:
        """Devices of as few groups as possible. The lowest index is taken whenever the rest can still be completed."""
        parts = [group & own for group in self.groups if group & own]
        n_groups = _fewest(parts, number)
        chosen, used = 0, set[int]()
        for place in places(own):
            bit = 1 << place
            group = next(at for at, part in enumerate(parts) if part & bit)
            missing = number - chosen.bit_count() - 1
            later = [(part >> (place + 1)).bit_count() for part in parts]
            if missing >= 0 and _can_complete(later, used | {group}, n_groups, missing):
                chosen |= bit
                used.add(group)
        return chosen


def _fewest(parts: Sequence[int], number: int) -> int:
    """How many of the groups are needed for this number of devices."""
    sizes, sum_ = sorted((part.bit_count() for part in parts), reverse=True), 0
    for n_groups, size in enumerate(sizes, start=1):
        sum_ += size
        if sum_ >= number:
            return n_groups
    return len(sizes)


def _can_complete(later: Sequence[int], used: set[int], n_groups: int, missing: int) -> bool:
    """Whether the groups in ``used``, and as many others as may be used, have this number of devices later on."""
    if len(used) > n_groups:
        return False
    others = sorted((size for group, size in enumerate(later) if group not in used), reverse=True)
    return sum(later[group] for group in used) + sum(others[: n_groups - len(used)]) >= missing


def places(mask: int) -> tuple[int, ...]:
    """The places of the devices in a set, ascending.

    >>> places(0b1101)
    (0, 2, 3)
    """
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(found)


def _lowest(mask: int, number: int) -> int:
    rest = mask
    for _ in range(number):
        rest &= rest - 1
    return mask ^ rest


def _mask(which: Iterable[bool]) -> int:
    return sum(1 << place for place, is_in in enumerate(which) if is_in)
