"""What administrators order about single devices: no new jobs on it, its error is over, it has failed."""

from __future__ import annotations

import msgspec
from sqlalchemy import delete

from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState
from rankd.core.model.device_record import DeviceOrder, StoredDevice
from rankd.core.model.device_report import DeviceNote
from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.record.device_fault import notes_of, orders_of
from rankd.store.record.device_note import EVENT, listed_devices, name_of, note_devices, write_devices, write_notes
from rankd.store.record.node import record_node_event
from rankd.store.schema.table import device_orders

NO_REASON = "no reason given"
_OF, _NONE = device_orders.c, DeviceOrder()


class DeviceWish(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's order. ``device``: its id, or its index if only one device of the node has it."""

    node: str
    device: str
    actor: str
    at: float
    reason: str = ""


def drain_device(connection: Connection, wish: DeviceWish) -> None:
    """Give the device to no new job. A job that holds it keeps it. A second order with a reason replaces the first one.

    Raises:
        Refused: ``unknown_device``, ``ambiguous_device``.
    """
    id_, found = _named(connection, wish)
    before = orders_of(connection, wish.node).get(id_, _NONE)
    reason = wish.reason or before.reason
    order = DeviceOrder(drained_by=wish.actor, drained_at=wish.at, reason=reason, resumed=before.resumed)
    _order(connection, wish, id_, order)
    _record(connection, wish, f"{_name(id_, found)} is drained: {reason or NO_REASON}")


def fail_device(connection: Connection, wish: DeviceWish) -> None:
    """Record an error of the device, as if its agent had reported it.

    Raises:
        Refused: ``unknown_device``, ``ambiguous_device``.
    """
    id_, _ = _named(connection, wish)
    present = notes_of(connection, wish.node).get(id_)
    fault = f"{wish.reason or NO_REASON} (said by {wish.actor})"
    note = DeviceNote(id=id_, state=present.state if present else DeviceState.OK, fault=fault)
    note_devices(connection, wish.node, [note], wish.at, wish.actor)


def resume_device(connection: Connection, wish: DeviceWish) -> None:
    """End the drain and the error of a device. It is offered again, unless its agent sees a reason against that.

    Raises:
        Refused: ``unknown_device``, ``ambiguous_device``, ``not_failed``.
    """
    id_, found = _named(connection, wish)
    note, order = notes_of(connection, wish.node).get(id_), orders_of(connection, wish.node).get(id_, _NONE)
    listed_failed = found is not None and found.said is DeviceState.FAILED and not order.resumed
    if note and note.fault:
        write_notes(connection, wish.node, [msgspec.structs.replace(note, fault="")], wish.at)
    elif not order.drained_by and (note or not listed_failed):
        raise Refused("not_failed", _needs_none(wish, id_, note, found), "device", status=409)
    # what its agent sees at present can't be overruled; only what its list says
    _order(connection, wish, id_, DeviceOrder(resumed=order.resumed or (listed_failed and not note)))
    _record(connection, wish, f"{_name(id_, found)} is resumed")


def _needs_none(wish: DeviceWish, id_: str, note: DeviceNote | None, found: StoredDevice | None) -> str:
    if found is not None and found.said is DeviceState.DRAINED:
        return (
            f"device '{id_}' of node '{wish.node}' is drained by its agent's list (--devices FILE), not by an order;"
            " change its state in the file, and start the agent again"
        )
    if note and note.state is DeviceState.FAILED:
        return (
            f"device '{id_}' of node '{wish.node}' can't be used at present: {note.reason or NO_REASON};"
            " it is offered again as soon as its agent can use it"
        )
    return f"device '{id_}' of node '{wish.node}' is neither drained nor failed; it needs no resume"


def _named(connection: Connection, wish: DeviceWish) -> tuple[str, StoredDevice | None]:
    """The id of the device, and the device; None if it has an error or an order, but its node does not list it now."""
    listed = listed_devices(connection, wish.node)
    if exact := next((one for one in listed if one.id == wish.device), None):
        return exact.id, exact
    by_index = [one for one in listed if str(one.index) == wish.device]
    if len(by_index) > 1:
        ids = ", ".join(one.id for one in by_index)
        message = f"node '{wish.node}' has {len(by_index)} devices with the index {wish.device}; give an id: {ids}"
        raise Refused("ambiguous_device", message, "device", status=409)
    if by_index:
        return by_index[0].id, by_index[0]
    if wish.device in notes_of(connection, wish.node) or wish.device in orders_of(connection, wish.node):
        return wish.device, None
    message = f"there is no device '{wish.device}' on a node '{wish.node}'; `rankd nodes --devices` lists them"
    raise Refused("unknown_device", message, "device", status=404)


def _name(id_: str, found: Device | None) -> str:
    return name_of(found) if found else f"device {id_}"


def _order(connection: Connection, wish: DeviceWish, id_: str, order: DeviceOrder) -> None:
    """Write an order, or delete the one that says nothing any more. Then the states that follow."""
    if order == _NONE:
        connection.execute(delete(device_orders).where(_OF.node == wish.node, _OF.device == id_))
    else:
        row = {
            "node": wish.node,
            "device": id_,
            "drained_by": order.drained_by or None,
            "drained_at": order.drained_at or None,
            "reason": order.reason or None,
            "resumed": order.resumed,
        }
        upsert(connection, device_orders, ["node", "device"], [row])
    write_devices(connection, wish.node, listed_devices(connection, wish.node))


def _record(connection: Connection, wish: DeviceWish, text: str) -> None:
    record_node_event(connection, wish.node, EVENT, wish.at, wish.actor, text)
