"""What is kept about the devices of a node beside their list: notes of its agent, orders, and the cards that jobs hold.

Errors and orders last until an administrator ends them, whatever the node registers meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, select

from rankd.core.model.device import Device, DeviceState
from rankd.core.model.device_record import DeviceOrder, HeldCard, StoredDevice, stored, with_states
from rankd.core.model.device_report import DeviceNote, outdated
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.word import TEXTS
from rankd.store.record.allocation_device import Card
from rankd.store.schema.table import allocation_devices, allocations, device_notes, device_orders

_OF, _ORDER, _HELD = device_notes.c, device_orders.c, allocation_devices.c
_CARD = msgspec.json.Decoder(Card)


def notes_of(connection: Connection, node: str) -> dict[str, DeviceNote]:
    """What is noted about the devices of a node, by their ids."""
    query = select(_OF.device, _OF.state, _OF.taken_by, _OF.reason, _OF.fault).where(_OF.node == node)
    return {
        row.device: DeviceNote(
            id=row.device,
            state=DeviceState(row.state),
            by=row.taken_by or "",
            reason=row.reason or "",
            fault=row.fault or "",
        )
        for row in connection.execute(query)
    }


def orders_of(connection: Connection, node: str) -> dict[str, DeviceOrder]:
    """What administrators said about the devices of a node, by their ids."""
    query = select(device_orders).where(_ORDER.node == node)
    return {
        row.device: DeviceOrder(
            drained_by=row.drained_by or "",
            drained_at=row.drained_at or 0.0,
            reason=row.reason or "",
            resumed=bool(row.resumed),
        )
        for row in connection.execute(query)
    }


def cards_of(connection: Connection, node: str) -> list[HeldCard]:
    """The cards of a node that open allocations hold, by allocation and id."""
    query = (
        select(allocations.c.job_id, _HELD.device, _HELD.position, _HELD.card)
        .join_from(allocation_devices, allocations, allocations.c.id == _HELD.allocation_id)
        .where(_HELD.node == node, _HELD.held)
        .order_by(_HELD.allocation_id, _HELD.device)
    )
    found = []
    for job, device, index, text in connection.execute(query):
        card = _CARD.decode(text) if text else Card()
        found.append(HeldCard(job=job, id=device, index=index, path=card.path, beside=card.beside))
    return found


def devices_now(connection: Connection, node: str, devices: Sequence[StoredDevice]) -> list[StoredDevice]:
    """The devices with the states that follow from all that is known about them."""
    return with_states(devices, notes_of(connection, node), orders_of(connection, node), cards_of(connection, node))


def noted_at_registration(connection: Connection, node: str, devices: Sequence[Device]) -> list[StoredDevice]:
    """The devices that a node registers, with their states.

    Errors and orders stay, and notes of the states that the node lists, so that it stays known who takes a device. A
    device that its node does not list as failed needs no order to be offered.
    """
    ids = {"ids": outdated(notes_of(connection, node), devices)}
    connection.execute(delete(device_notes).where(_OF.node == node, _OF.device.in_(values_of("ids", TEXTS))), ids)
    end_resumed(connection, node, [device.id for device in devices if device.state is not DeviceState.FAILED])
    return devices_now(connection, node, [stored(device) for device in devices])


def end_resumed(connection: Connection, node: str, ids: Sequence[str]) -> None:
    """Forget that these devices are offered although they were listed as failed."""
    resumed = [id_ for id_, order in orders_of(connection, node).items() if order.resumed and id_ in ids]
    if resumed:
        own = device_orders.update().where(_ORDER.node == node, _ORDER.device.in_(resumed))
        connection.execute(own.values(resumed=False))
