"""Messages about devices: what an agent sees of them, and an administrator's request."""

from __future__ import annotations

import msgspec

from rankd.core.model.device_report import DeviceNote, DeviceUse


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """States that changed, and what jobs did. ``instance``: the random id of the agent's state directory.

    ``batch``: a random id of ``uses``, which is the same if they are sent again. So they are added once.
    """

    notes: list[DeviceNote] = []
    uses: list[DeviceUse] = []
    instance: str = ""
    batch: str = ""


class DeviceSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of a node, by its id or index. ``reason``: why it is drained, or how it has failed."""

    node: str
    device: str
    reason: str = ""
