"""States of devices, as agents report them and administrators order them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import delete, select, update

from rankd.core.model.device import Device, DeviceState, offered
from rankd.core.model.device_record import StoredDevice
from rankd.core.model.device_report import DeviceNote, in_words, merged
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.upsert import upsert
from rankd.store.engine.word import TEXTS
from rankd.store.record.all_nodes import read_stored
from rankd.store.record.device_fault import devices_now, end_resumed, notes_of
from rankd.store.record.node import record_node_event
from rankd.store.schema.table import allocation_devices, device_notes, nodes

EVENT = "device"
ACTOR = "intake"
LONGEST_REASON = 1000
_OF = device_notes.c
_BLOCKED = (
    select(allocation_devices.c.node)
    .join_from(allocation_devices, nodes, nodes.c.name == allocation_devices.c.node)
    .where(allocation_devices.c.allocation_id.in_(values_of("ids")), nodes.c.devices.contains('"blocked":'))
    .distinct()
)


def note_devices(
    connection: Connection, node: str, notes: Sequence[DeviceNote], now: float, actor: str | None = None
) -> None:
    """Record what an agent sees of its node's devices. Notes about other devices have no effect. ``actor``: if another.

    One event names all changes, and lets the scheduler try to place jobs again.
    """
    listed = listed_devices(connection, node)
    here = {device.id: device for device in listed}
    known = notes_of(connection, node)
    newest = {note.id: merged(known.get(note.id), note) for note in notes if note.id in here}
    changed = {id_: note for id_, note in newest.items() if known.get(id_, _fine(id_)) != note}
    if changed:
        write_notes(connection, node, list(changed.values()), now)
        end_resumed(connection, node, list(changed))
        said = [
            msgspec.structs.replace(device, said=newest[device.id].state) if device.id in changed else device
            for device in listed
        ]
        write_devices(connection, node, said)
        # every user may hear events of nodes, so they name no user
        public = {id_: msgspec.structs.replace(note, by="") for id_, note in changed.items()}
        told = "; ".join(in_words(note, name_of(here[id_])) for id_, note in public.items())
        record_node_event(connection, node, EVENT, now, actor or node, told[:LONGEST_REASON])


def free_cards(connection: Connection, allocations: Collection[int], now: float) -> None:
    """Offer the devices whose cards these allocations held under another id. Their own devices are released before."""
    if not allocations:
        return
    for node in list(connection.execute(_BLOCKED, {"ids": allocations}).scalars()):
        before = listed_devices(connection, node)
        after = write_devices(connection, node, before)
        free = [new for old, new in zip(before, after, strict=True) if old.blocked and not new.blocked]
        if free:
            told = "; ".join(f"{name_of(device)} is held by no job any more" for device in free)
            record_node_event(connection, node, EVENT, now, ACTOR, told[:LONGEST_REASON])


def listed_devices(connection: Connection, node: str) -> Sequence[StoredDevice]:
    """The devices that a node lists; none if there is no such node."""
    text = connection.execute(select(nodes.c.devices).where(nodes.c.name == node)).scalar()
    return read_stored(text) if text else ()


def write_devices(connection: Connection, node: str, devices: Sequence[StoredDevice]) -> list[StoredDevice]:
    """Write a node's devices with their present states, and the amounts that it offers. Returns what was written."""
    present = devices_now(connection, node, devices)
    capacity = connection.execute(select(nodes.c.capacity).where(nodes.c.name == node)).scalar()
    values = {
        "devices": msgspec.json.encode(present).decode(),
        "capacity": json.dumps(offered(json.loads(capacity or "{}"), present), sort_keys=True),
    }
    connection.execute(update(nodes).where(nodes.c.name == node).values(values))
    return present


def _fine(id_: str) -> DeviceNote:
    return DeviceNote(id=id_, state=DeviceState.OK)


def name_of(device: Device) -> str:
    """What people call a device of a node, such as ``gpu 0``."""
    return f"{device.type} {device.index}"


def write_notes(connection: Connection, node: str, notes: Sequence[DeviceNote], now: float) -> None:
    """Write the notes; a device that is fine has none."""
    fine = [note.id for note in notes if note == _fine(note.id)]
    connection.execute(
        delete(device_notes).where(_OF.node == node, _OF.device.in_(values_of("ids", TEXTS))), {"ids": fine}
    )
    rows = [_row(node, note, now) for note in notes if note.id not in fine]
    upsert(connection, device_notes, ["node", "device"], rows)


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
