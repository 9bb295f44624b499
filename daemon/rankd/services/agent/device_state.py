"""The states of a node's devices, by what the watcher sees. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec

from rankd.core.model.device import DeviceState
from rankd.services.agent.device_owner import Owner
from rankd.services.watcher.message import Seen


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a device at present, and why it is not ``ok``.

    ``by``: pid and user of a process that uses it without a job. An error that lasts until an administrator resumes the
    device is not part of it: such an error is reported once, and kept in the records.
    """

    state: DeviceState = DeviceState.OK
    by: str = ""
    reason: str = ""


FINE = DeviceStatus()


def status_of(seen: Seen, owners: Mapping[int, Owner], running: Container[int]) -> DeviceStatus:
    """The state of one device. ``owners``: of the living processes; ``running``: the allocations of this node."""
    if seen.problem:
        return DeviceStatus(state=DeviceState.FAILED, reason=seen.problem)
    foreign = [owner for pid in seen.pids if (owner := owners.get(pid)) and owner.allocation not in running]
    if not foreign:
        return FINE
    first = min(foreign)
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    return DeviceStatus(state=DeviceState.TAKEN, by=f"{first.pid} {first.user}{more}")


def unseen(ids: Iterable[str], problem: str) -> dict[str, DeviceStatus]:
    """The states of devices that can't be looked at: jobs would hang as the look does."""
    return dict.fromkeys(ids, DeviceStatus(state=DeviceState.FAILED, reason=problem))


def changed(before: Mapping[str, DeviceStatus], after: Mapping[str, DeviceStatus]) -> dict[str, DeviceStatus]:
    """The states that differ from those before. A device that was not known before is expected to be fine."""
    return {id_: status for id_, status in after.items() if before.get(id_, FINE) != status}
