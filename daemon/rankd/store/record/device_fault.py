"""Errors of devices that last until an administrator resumes them, whatever their node registers meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from rankd.core.model.device import Device, DeviceState
from rankd.core.model.device_report import DeviceNote, with_states
from rankd.store.engine.connection import Connection
from rankd.store.schema.table import device_notes

_OF = device_notes.c


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


def noted_at_registration(connection: Connection, node: str, devices: Sequence[Device]) -> list[Device]:
    """The devices that a node registers, with their errors. Other notes are forgotten: the agent reports them again."""
    connection.execute(delete(device_notes).where(_OF.node == node, _OF.fault.is_(None)))
    return with_states(devices, [note for note in notes_of(connection, node).values() if note.fault])
