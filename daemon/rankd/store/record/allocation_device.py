"""The devices of allocations. A device is in one open allocation at most; a unique index holds this, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import select, update

from rankd.core.model.device import DeviceState, in_order, kind_of, model_of, with_models
from rankd.core.model.device_record import StoredDevice, beside
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.word import TEXTS
from rankd.store.record.all_nodes import read_stored
from rankd.store.schema.table import allocation_devices, nodes

_COLUMNS = ("allocation_id", "node", "device", "model", "position", "held", "card")
_OF = allocation_devices.c
_LISTED = select(nodes.c.name, nodes.c.devices).where(nodes.c.name.in_(values_of("names", TEXTS)))
_HELD = select(_OF.node, _OF.device).where(_OF.held, _OF.node.in_(values_of("names", TEXTS)))
_OF_ALLOCATIONS = (
    select(_OF.allocation_id, _OF.node, _OF.device, _OF.model, _OF.position, _OF.card)
    .where(_OF.allocation_id.in_(values_of("ids")))
    .order_by(_OF.allocation_id, _OF.node, _OF.position, _OF.device)
)
_OPEN = (
    select(_OF.allocation_id, _OF.node, _OF.device, _OF.model, _OF.position, _OF.card)
    .where(_OF.held)
    .order_by(_OF.node, _OF.device)  # the order of the index of held devices, or SQLite reads those of all times
)
_RELEASE = update(allocation_devices).where(_OF.allocation_id.in_(values_of("ids")), _OF.held).values(held=False)

DevicesByNode = Mapping[str, Sequence[str]]


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """The column ``card``: see :class:`rankd.core.model.device_record.HeldCard`."""

    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


_CARD = msgspec.json.Decoder(Card)


class HeldDevice(msgspec.Struct, frozen=True):
    """A device of an allocation. ``model``, ``index`` and ``path``: when it was allocated."""

    node: str
    id: str
    model: str
    index: int
    path: tuple[str, ...] = ()


class DevicesOfNodes:
    """The devices of some nodes: those that they list, and those that may be allocated."""

    def __init__(self, listed: Mapping[str, Sequence[StoredDevice]], held: Collection[tuple[str, str]]) -> None:
        self._lists = listed
        self._listed = {(node, device.id): device for node, devices in listed.items() for device in devices}
        self._free = {key for key, device in self._listed.items() if device.state is DeviceState.OK and key not in held}
        self._with_devices = {node for node, devices in listed.items() if devices}

    def take(
        self,
        nodes_: Sequence[str],
        devices: DevicesByNode,
        *,
        uses_devices: bool,
        asked: Mapping[str, int] | None = None,
    ) -> bool:
        """Whether an allocation may have these devices. Then they are not free for the next one.

        ``uses_devices``: it asks for devices, so it must name some on each node that lists any. ``asked``: the amounts
        per node, whose models the devices must still have.
        """
        wanted = {(node, id_) for node, ids in devices.items() for id_ in ids}
        lacks = uses_devices and any(node in self._with_devices and not devices.get(node) for node in nodes_)
        if (
            lacks
            or not wanted <= self._free
            or not all(self._has(node, devices[node], asked or {}) for node in devices)
        ):
            return False
        self._free -= wanted
        return True

    def rows(self, allocation: int, devices: DevicesByNode) -> list[tuple[object, ...]]:
        """The rows of the table for an allocation."""
        found = [(node, device) for node, ids in devices.items() for device in in_order(self._of(node, ids))]
        return [
            (allocation, node, device.id, device.model, device.index, True, self._card(node, device))
            for node, device in found
        ]

    def _card(self, node: str, device: StoredDevice) -> str | None:
        card = Card(device.path, beside(device, self._lists[node]))
        return msgspec.json.encode(card).decode() if card != Card() else None

    def _has(self, node: str, ids: Sequence[str], asked: Mapping[str, int]) -> bool:
        """Whether the devices have the models that were asked for."""
        models = [kind_of(device.model) for device in self._of(node, ids)]
        return all(models.count(kind) >= amount for kind, amount in asked.items() if model_of(kind) is not None)

    def _of(self, node: str, ids: Sequence[str]) -> list[StoredDevice]:
        return [self._listed[node, id_] for id_ in ids]


def devices_of_nodes(connection: Connection, names: Collection[str]) -> DevicesOfNodes:
    """The devices of these nodes."""
    if not names:
        return DevicesOfNodes({}, ())
    listed = {name: read_stored(text) for name, text in connection.execute(_LISTED, {"names": names})}
    held = {(node, device) for node, device in connection.execute(_HELD, {"names": names})}
    return DevicesOfNodes(listed, held)


def insert_devices(connection: Connection, rows: Sequence[Sequence[object]]) -> None:
    """Record the devices of new allocations, the rows of :meth:`DevicesOfNodes.rows`."""
    if rows:
        bulk_insert(connection, "allocation_devices", _COLUMNS, rows)


def release_devices(connection: Connection, allocations: Collection[int]) -> None:
    """The devices of ended allocations are free again."""
    if allocations:
        connection.execute(_RELEASE, {"ids": allocations})


def devices_of(connection: Connection, allocations: Collection[int]) -> dict[int, list[HeldDevice]]:
    """The devices of these allocations, by allocation. Those without any are left out."""
    return _by_allocation(connection.execute(_OF_ALLOCATIONS, {"ids": allocations})) if allocations else {}


def held_devices(connection: Connection) -> dict[int, list[HeldDevice]]:
    """The devices of all open allocations, by allocation."""
    return _by_allocation(connection.execute(_OPEN))


def _by_allocation(rows: Iterable[Any]) -> dict[int, list[HeldDevice]]:
    found: dict[int, list[HeldDevice]] = {}
    for allocation, node, device, model, index, card in rows:
        path = _CARD.decode(card).path if card else ()
        found.setdefault(allocation, []).append(HeldDevice(node, device, model, index, path))
    return found


def models_by_node(held: Iterable[HeldDevice]) -> dict[str, list[str]]:
    """The models of an allocation's devices, by node."""
    found: dict[str, list[str]] = {}
    for device in held:
        found.setdefault(device.node, []).append(device.model)
    return found


def used_on(amounts: Mapping[str, int], models: Sequence[str] | None) -> dict[str, int]:
    """The amounts that a job uses on a node, with the models of its devices there; None if it has none there."""
    return dict(amounts) if models is None else with_models(amounts, models)
