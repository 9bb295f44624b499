"""States of devices, as agents report them, and the end of an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import delete, select, update

from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState, offered
from rankd.core.model.device_report import DeviceNote, in_words, merged, with_states
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.upsert import upsert
from rankd.store.engine.word import TEXTS
from rankd.store.record.all_nodes import read_devices
from rankd.store.record.device_fault import notes_of
from rankd.store.record.node import record_node_event
from rankd.store.schema.table import device_notes, nodes

EVENT = "device"
LONGEST_REASON = 1000
_OF = device_notes.c


def note_devices(connection: Connection, node: str, notes: Sequence[DeviceNote], now: float) -> None:
    """Record what an agent sees of its node's devices. Notes about other devices have no effect.

    One event names all changes, and lets the scheduler try to place jobs again.
    """
    here = {device.id: device for device in _devices(connection, node)}
    known = notes_of(connection, node)
    newest = {note.id: merged(known.get(note.id), note) for note in notes if note.id in here}
    changed = {id_: note for id_, note in newest.items() if known.get(id_, _fine(id_)) != note}
    if changed:
        _write(connection, node, known, changed, now)
        # every user may hear events of nodes, so they name no user
        public = {id_: msgspec.structs.replace(note, by="") for id_, note in changed.items()}
        told = "; ".join(in_words(note, name_of(here[id_])) for id_, note in public.items())
        record_node_event(connection, node, EVENT, now, node, told[:LONGEST_REASON])


def resume_device(connection: Connection, node: str, device: str, actor: str, now: float) -> None:
    """End the error of a device. It is offered again, unless its agent sees a reason against that.

    Raises:
        Refused: ``unknown_device``, ``not_failed``.
    """
    known = notes_of(connection, node)
    found = next((one for one in _devices(connection, node) if one.id == device), None)
    if found is None and device not in known:
        message = f"there is no device '{device}' on a node '{node}'; `rankd nodes --devices` lists them"
        raise Refused("unknown_device", message, "device", status=404)
    if device not in known or not known[device].fault:
        message = f"device '{device}' of node '{node}' has no error; it needs no resume"
        raise Refused("not_failed", message, "device", status=409)
    _write(connection, node, known, {device: msgspec.structs.replace(known[device], fault="")}, now)
    name = name_of(found) if found else f"device {device}"
    record_node_event(connection, node, EVENT, now, actor, f"{name} is resumed")


def _devices(connection: Connection, node: str) -> Sequence[Device]:
    text = connection.execute(select(nodes.c.devices).where(nodes.c.name == node)).scalar()
    return read_devices(text) if text else ()


def _fine(id_: str) -> DeviceNote:
    return DeviceNote(id=id_, state=DeviceState.OK)


def name_of(device: Device) -> str:
    """What people call a device of a node, such as ``gpu 0``."""
    return f"{device.type} {device.index}"


def _write(
    connection: Connection, node: str, known: Mapping[str, DeviceNote], changed: Mapping[str, DeviceNote], now: float
) -> None:
    """Write the notes; a device that is fine has none. Then the node's devices, and the amounts that it offers."""
    fine = [id_ for id_, note in changed.items() if note == _fine(id_)]
    connection.execute(
        delete(device_notes).where(_OF.node == node, _OF.device.in_(values_of("ids", TEXTS))), {"ids": fine}
    )
    rows = [_row(node, note, now) for id_, note in changed.items() if id_ not in fine]
    upsert(connection, device_notes, ["node", "device"], rows)
    devices = with_states(_devices(connection, node), list({**known, **changed}.values()))
    capacity = connection.execute(select(nodes.c.capacity).where(nodes.c.name == node)).scalar()
    values = {
        "devices": msgspec.json.encode(devices).decode(),
        "capacity": json.dumps(offered(json.loads(capacity or "{}"), devices), sort_keys=True),
    }
    connection.execute(update(nodes).where(nodes.c.name == node).values(values))


def _row(node: str, note: DeviceNote, now: float) -> dict[str, object]:
    return {
        "node": node,
        "device": note.id,
        "state": note.state.value,
        "taken_by": note.by or None,
        "reason": note.reason or None,
        "fault": note.fault or None,
        "at": now,
    }
