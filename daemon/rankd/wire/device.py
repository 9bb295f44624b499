"""Messages about devices: what an agent sees of them, and an administrator's request."""

from __future__ import annotations

import msgspec

from rankd.core.model.device import DeviceState

LONGEST_NOTE = 200
MOST_USES = 256
"""In one message. An agent sends further ones in another message."""


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


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """States that changed, and what jobs did. ``instance``: the random id of the agent's state directory."""

    notes: list[DeviceNote] = []
    uses: list[DeviceUse] = []
    instance: str = ""


class DeviceSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of a node that is failed, to be offered again."""

    node: str
    device: str
