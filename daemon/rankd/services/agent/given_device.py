"""Devices that the agent's options give: made-up ones, or those of a file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rankd.core.admission.node_check import MAX_DEVICES, check_devices
from rankd.core.errors import Refused
from rankd.core.model.device import GPU, ListedDevice, is_model
from rankd.core.model.device_environment import AMD, NVIDIA
from rankd.core.model.quantity import Amount, parse_amount

_HEAD = re.compile(r"\s*\[\[\s*device\s*\]\]")
_SPEC = re.compile(rf"{GPU}:[a-z0-9._-]+:[0-9]+")
GROUP = 4
"""The number of made-up devices that are linked."""
_OF_NVIDIA, _OF_AMD = ("/dev/nvidia",), ("/dev/kfd", "/dev/dri/")


class DeviceSpec(msgspec.Struct, frozen=True):
    """Some made-up devices of one model."""

    model: str
    number: int


class GivenDevice(ListedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as a file gives it."""

    def registered(self) -> ListedDevice:
        """The device as the intake gets it."""
        return ListedDevice(**{name: getattr(self, name) for name in ListedDevice.__struct_fields__})


def vendor_of(paths: Sequence[str]) -> str | None:
    """``nvidia`` or ``amd``, by the files of a device; None for a made-up one, which has none.

    >>> vendor_of(["/dev/nvidia0"]), vendor_of(["/dev/kfd", "/dev/dri/renderD128"]), vendor_of([])
    ('nvidia', 'amd', None)
    """
    if any(path.startswith(_OF_NVIDIA) for path in paths):
        return NVIDIA
    return AMD if any(path.startswith(_OF_AMD) for path in paths) else None


def parse_spec(text: str) -> DeviceSpec:
    """``gpu:a100:4``.

    Raises:
        ValueError: it has another form, or too many devices.
    """
    type_, _, rest = text.partition(":")
    model, _, number = rest.rpartition(":")
    lower = text.lower()
    if text != lower and _SPEC.fullmatch(lower) is not None:
        raise ValueError(f"'{text}': types and models are written in lower case; write {lower}")
    if type_ != GPU or not is_model(model) or not (number.isascii() and number.isdigit()):
        raise ValueError(f"'{text}' does not say which devices there are; write gpu:MODEL:NUMBER, such as gpu:a100:4")
    if not 0 < int(number[:9]) <= MAX_DEVICES or len(number) > 9:
        raise ValueError(f"'{text}': a node has 1 to {MAX_DEVICES} devices")
    return DeviceSpec(model, int(number))


class GivenDevices:
    """The devices of the agent's nodes: :meth:`of` lists those of one node."""

    def __init__(self, specs: Sequence[DeviceSpec] = (), of_file: Sequence[GivenDevice] = ()) -> None:
        self._models = [spec.model for spec in specs for _ in range(spec.number)]
        self._of_file = tuple(of_file)

    def __bool__(self) -> bool:
        return bool(self._models or self._of_file)

    def of(self, node: str) -> list[GivenDevice]:
        """The devices of the file, then the made-up ones. These are ``NODE-gpu-0`` and so on, in groups of four.

        Raises:
            Refused: ``too_many``, ``bad_devices``.
        """
        first = max((device.index for device in self._of_file), default=-1) + 1
        made = [
            GivenDevice(model=model, id=f"{node}-gpu-{place}", index=first + place, group=place // GROUP)
            for place, model in enumerate(self._models)
        ]
        found = [*self._of_file, *made]
        check_devices(found)
        return found


def read_file(path: Path) -> list[GivenDevice]:
    """The devices of a TOML file: a table ``[[device]]`` each. ``path`` may be one text; ``memory`` may be ``80Gi``.

    Raises:
        Refused: ``bad_devices``: the file can't be read, or has something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = msgspec.convert(tomllib.loads(text), _File)
        found = [msgspec.convert(_table(table), GivenDevice) for table in tables.device]
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Refused("bad_devices", f"{path}: {error}", "devices") from None
    except RecursionError:
        raise Refused("bad_devices", f"{path}: it is nested too deeply; flatten it", "devices") from None
    check_devices(found)
    _check_indices(path, text, found)
    return found


def _check_indices(path: Path, text: str, devices: Sequence[GivenDevice]) -> None:
    """Check that no two devices of a vendor have the same index, except parts of a card, which share a file.

    Raises:
        Refused: ``bad_devices``, with the line of the second one, if each has a table ``[[device]]``.
    """
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEAD.match(line)]
    seen: dict[tuple[str | None, int], GivenDevice] = {}
    for place, device in enumerate(devices):
        other = seen.setdefault((vendor_of(device.path), device.index), device)
        if other is not device and not set(other.path).intersection(device.path):
            where = f":{lines[place]}" if len(lines) == len(devices) else ""
            message = f"device '{device.id}' has the index {device.index}, as '{other.id}' has; give each its own"
            raise Refused("bad_devices", f"{path}{where}: {message}", "devices")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    device: list[dict[str, Any]] = []


def _table(table: Mapping[str, Any]) -> dict[str, object]:
    memory: Amount = table.get("memory", 0)
    path = table.get("path", ())
    return {**table, "memory": parse_amount("memory", memory), "path": [path] if isinstance(path, str) else path}
