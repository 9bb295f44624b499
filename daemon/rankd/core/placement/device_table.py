"""The free devices of a partition's nodes during one cycle, and which of them a job gets.

Sets of devices are integers, as in :mod:`rankd.core.placement.device_layout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rankd.core.model.device import GPU, Device, DeviceState, in_order, kind_of, model_of, price_of
from rankd.core.placement.device_layout import Asked, DeviceLayout, Prices, places

if TYPE_CHECKING:
    from rankd.core.model.quantity import Resources

_COUNTED = (DeviceState.TAKEN, DeviceState.DRAINED)


def asked_devices(resources: Mapping[str, int]) -> Asked:
    """The devices that amounts per node ask for: of each model by name, or any.

    >>> asked_devices({"gpu": 3, "gpu:v100": 2, "gpu:a100": 1})
    (('a100', 1), ('v100', 2))
    >>> asked_devices({"gpu": 2}), asked_devices({"vcore": 1000})
    (((None, 2),), ())
    """
    named = sorted((model, amount) for kind, amount in resources.items() if amount and (model := model_of(kind)))
    if named:
        return tuple(named)
    return ((None, resources[GPU]),) if resources.get(GPU) else ()


class NodeDevices:
    """The devices of one node, in the order of their indices. ``ok``: those that new jobs may get.

    ``taken``: the number of taken and drained ones by type of resource. These count, but new jobs don't get them.
    """

    __slots__ = ("ids", "layout", "models", "ok", "places", "taken")

    def __init__(self, devices: Sequence[Device], layout: DeviceLayout) -> None:
        listed = in_order(devices)
        self.layout = layout
        self.ids = tuple(device.id for device in listed)
        self.models = tuple(device.model for device in listed)
        self.places = {id_: place for place, id_ in enumerate(self.ids)}
        self.ok = _mask(place for place, device in enumerate(listed) if device.state is DeviceState.OK)
        taken = [device.model for device in listed if device.state in _COUNTED]
        self.taken: Resources = {kind_of(model): taken.count(model) for model in taken}
        if taken:
            self.taken[GPU] = len(taken)

    def set_of(self, ids: Iterable[str]) -> int:
        """The set of the devices with these ids. An id that the node does not have is left out."""
        return _mask(self.places[id_] for id_ in ids if id_ in self.places)

    def listed(self, chosen: int) -> tuple[str, ...]:
        """The ids of a set, in the order of their indices."""
        return tuple(self.ids[place] for place in places(chosen))


class Layouts:
    """Makes the devices of nodes. Nodes with the same models and groups get the same layout."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[tuple[str, int], ...], DeviceLayout] = {}

    def of(self, devices: Sequence[Device]) -> NodeDevices | None:
        """The devices of a node; None if it lists none."""
        if not devices:
            return None
        key = tuple((device.model, device.group) for device in in_order(devices))
        if key not in self._layouts:
            self._layouts[key] = DeviceLayout(devices)
        return NodeDevices(devices, self._layouts[key])


class DeviceTable:
    """The free devices by row. ``held``: the sets that open allocations hold, by row."""

    def __init__(
        self, rows: Sequence[NodeDevices | None], held: Mapping[int, int], billing: Mapping[str, float]
    ) -> None:
        self._rows = rows
        self._held = held
        self._billing = billing
        self._free: dict[int, int] = {}
        self._prices: dict[int, Prices] = {}

    def free(self, row: int) -> int:
        """The free devices of a node."""
        found = self._free.get(row)
        if found is None:
            devices = self._rows[row]
            found = self._free[row] = 0 if devices is None else devices.ok & ~self._held.get(row, 0)
        return found

    def choose(self, row: int, asked: Asked) -> int:
        """The devices that a job gets on a node; 0 if it has not enough of them free."""
        devices = self._rows[row]
        if devices is None:
            return 0
        return devices.layout.choose(self.free(row), asked, self._prices_of(devices.layout)) or 0

    def _prices_of(self, layout: DeviceLayout) -> Prices:
        found = self._prices.get(id(layout))
        if found is None:
            found = self._prices[id(layout)] = tuple(price_of(model, self._billing) for model in layout.models)
        return found

    def take(self, row: int, chosen: int) -> None:
        """These devices are not free any more."""
        self._free[row] = self.free(row) & ~chosen

    def amounts(self, row: int, chosen: int) -> Resources:
        """The number of devices in a set, in all and of each model in it. Do not change the result."""
        devices = self._rows[row]
        return {} if devices is None else devices.layout.counted(chosen)

    def ids(self, row: int, chosen: int) -> tuple[str, ...]:
        """The ids of a set, in the order of their indices."""
        devices = self._rows[row]
        return () if devices is None else devices.listed(chosen)


def _mask(of: Iterable[int]) -> int:
    found = 0
    for place in of:
        found |= 1 << place
    return found
