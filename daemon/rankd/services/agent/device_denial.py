"""The device files that a job may not open: those of the node's devices that are not its own.

A file is known by its path, and denied by its number. The number is read when a job starts, since a driver that is
loaded again may give its files other numbers. A file that is missing then keeps the number that it had before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from rankd.core.errors import Refused
from rankd.core.model.delivery import NOT_TAKEN
from rankd.core.model.device import AssignedDevice, ListedDevice
from rankd.services.keeper.device_rule import MOST_DENIED, DeviceNumber, number_of
from rankd.services.runtime.unreplaceable import check_unreplaceable


class DeviceDenial:
    """The files of the devices that this node offers, by the devices' ids. Devices may share files."""

    def __init__(self) -> None:
        self._offered: dict[str, ListedDevice] = {}
        self._paths: dict[str, Sequence[str]] = {}
        self._former: dict[str, None] = {}
        self._known: dict[str, DeviceNumber] = {}

    def offer(self, devices: Iterable[ListedDevice]) -> None:
        """Replace the offered devices. Reads the files' numbers, so that one that vanishes is still denied.

        The files of the devices before stay denied: a job may still hold their cards.
        """
        self.deny_still(path for files in self._paths.values() for path in files)
        self._offered = {device.id: device for device in devices}
        self._paths = {id_: device.path for id_, device in self._offered.items()}
        for path in {path for files in self._paths.values() for path in files}:
            self._number(path)

    def deny_still(self, paths: Iterable[str]) -> None:
        """Deny these files although no device is offered that has them: those of a card that a job still holds."""
        self._former |= dict.fromkeys(paths)

    def check(self, devices: Iterable[AssignedDevice]) -> None:
        """Check that a job's devices are what they were when they were allocated.

        Raises:
            Refused: ``not_taken``: the list has changed since, so another job may hold the card.
        """
        for device in devices:
            offered = self._offered.get(device.id)
            if offered is None or offered.index != device.index or (device.path and offered.path != device.path):
                message = (
                    f"gpu {device.index} ({device.id}) is not what it was when the job got it: the devices changed"
                )
                raise Refused(NOT_TAKEN, message, "devices")

    @property
    def paths(self) -> Mapping[str, Sequence[str]]:
        """The files of each offered device; a made-up device has none."""
        return self._paths

    def files_of(self, ids: Iterable[str]) -> list[str]:
        """The files of these devices."""
        return [path for id_ in ids for path in self._paths.get(id_, ())]

    def denied(self, own: Collection[str]) -> list[DeviceNumber]:
        """The numbers of the files that a job with these devices may not open.

        A file that has never existed can't be denied, and can't be opened either.
        """
        others = [files for id_, files in self._paths.items() if id_ not in own]
        allowed = self._numbers(self._paths.get(id_, ()) for id_ in own)
        denied = self._numbers(others) - allowed
        former = sorted(self._numbers([list(self._former)]) - allowed - denied)
        return sorted([*denied, *former[: max(0, MOST_DENIED - len(denied))]])

    def _numbers(self, files: Iterable[Sequence[str]]) -> set[DeviceNumber]:
        return {number for paths in files for path in paths if (number := self._number(path))}

    def _number(self, path: str) -> DeviceNumber | None:
        try:
            number = number_of(path)
        except OSError:
            number = None
        if number is not None:
            self._known[path] = number
        return self._known.get(path)


def check_files(paths: Collection[str], *, has_users: bool) -> None:
    """Check that these are files of devices. ``has_users``: jobs have the rights of several users.

    Raises:
        Refused: ``bad_path``: there are too many; one is no device, or does not exist; another user could replace it.
    """
    if len(set(paths)) > MOST_DENIED:
        raise Refused("bad_path", f"the devices have {len(set(paths))} files; at most {MOST_DENIED} work", "devices")
    for path in paths:
        try:
            number = number_of(path)
            if has_users:
                check_unreplaceable(Path(path), "devices")
        except OSError as error:
            message = f"the device file {path} can't be used: {error.strerror}; is its driver loaded?"
            raise Refused("bad_path", message, "devices") from error
        if number is None:
            message = f"{path} is not the file of a device; give the path of a character or block device"
            raise Refused("bad_path", message, "devices")
