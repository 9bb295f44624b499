"""What an agent sees of its devices: their states, and what jobs do with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState

LONGEST_NOTE = 200
MOST_NOTES = 256
MOST_USES = 256
"""In one message. An agent sends further ones in another message."""
_MOST_SAMPLES = 10**6
_MOST_BYTES = 2**53
_LONGEST_IDLE_S = 10.0**9


class DeviceNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a device at present, and why it is not ``ok``.

    ``by``: pid and user of a process that uses it without a job. ``fault``: an error since the note before. The device
    is then failed until an administrator resumes it, whatever is reported later.
    """

    id: str
    state: DeviceState
    by: str = ""
    reason: str = ""
    fault: str = ""


class DeviceUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job did with a device since the report before.

    ``recent``: mean utilisation of the last 10 minutes, 0 to 1; None if it can't be read. ``busy``: the sum of
    ``samples`` utilisations. ``peak_bytes``: the most memory since the job started. ``idle_s``: for how long the device
    has been idle; None if that is not known.
    """

    allocation: int
    id: str
    recent: float | None = None
    busy: float = 0.0
    samples: int = 0
    peak_bytes: int = 0
    idle_s: float | None = None


def check_uses(uses: Sequence[DeviceUse]) -> None:
    """Check that these are possible amounts.

    Raises:
        Refused: ``bad_field``.
    """
    for use in uses:
        if not _is_possible(use):
            raise Refused("bad_field", f"allocation {use.allocation} can't use a device in this way", "uses")


def _is_possible(use: DeviceUse) -> bool:
    numbers = (use.busy, use.recent or 0.0, use.idle_s or 0.0)
    return (
        all(math.isfinite(number) and number >= 0 for number in numbers)
        and 0 <= use.samples <= _MOST_SAMPLES
        and use.busy <= use.samples
        and (use.recent or 0.0) <= 1
        and 0 <= use.peak_bytes <= _MOST_BYTES
        and (use.idle_s or 0.0) <= _LONGEST_IDLE_S
    )


def merged(before: DeviceNote | None, after: DeviceNote) -> DeviceNote:
    """The newest note, with the error of the one before if it names none itself."""
    fault = after.fault or (before.fault if before else "")
    return msgspec.structs.replace(after, fault=fault)


def outdated(notes: Mapping[str, DeviceNote], devices: Iterable[Device]) -> list[str]:
    """The ids of the notes that a node's registration ends. ``notes`` by id; ``devices``: as the node lists them.

    Errors stay until an administrator resumes the device. A note of the state in which the device is listed stays too:
    it says who takes it.
    """
    listed = {device.id: device.state for device in devices}
    return [id_ for id_, note in notes.items() if not note.fault and listed.get(id_) is not note.state]


def in_words(note: DeviceNote, name: str) -> str:
    """What a note says, for an event and for people. ``name``: of the device, such as ``gpu 0``.

    >>> in_words(DeviceNote(id="g0", state=DeviceState.TAKEN, by="4711 bob"), "gpu 0")
    'gpu 0 is taken by process 4711 of bob'
    """
    if note.fault:
        return f"{name} has failed: {note.fault}"
    if note.state is DeviceState.FAILED:
        return f"{name} can't be used at present: {note.reason or 'no reason given'}"
    if note.state is DeviceState.TAKEN:
        pid, _, user = note.by.partition(" ")
        return f"{name} is taken by process {pid} of {user}" if user else f"{name} is taken"
    return f"{name} is free of other processes"
