"""Limits of a node's registration: its amounts, labels and names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rankd.core.errors import Refused
from rankd.core.model.device import Device, ListedDevice, is_model, offered
from rankd.core.model.quantity import MOST_OF_A_NODE, Amount, Resources, check_node_amount, parse_resources
from rankd.core.near_name import cut
from rankd.core.placement.constraint import NODE

MAX_KINDS = 64
MAX_LABELS = 256
MAX_LABEL_KEY = 317
MAX_LABEL_VALUE = 63
MAX_RUNNING = 100_000
MAX_NAME = 253
MAX_DEVICES = 256
"""More than the GPUs of any node, also if each of 8 has 7 MIG instances."""
MAX_DEVICE_ID = 128
MAX_PATHS = 16
"""Of a device."""
MAX_PATH = 256
NOT_IN_IDS = " ,\"'"
_MOST = (2**31 - 1, 2**31 - 1, MOST_OF_A_NODE)
SEPARATORS = ",[]"
"""The characters with a meaning in a list of nodes."""


def check_name(name: str, field: str) -> None:
    """Check the name of a node, partition, agent or resource type.

    Raises:
        Refused: ``bad_name``.
    """
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        message = f"{field} is '{cut(name)!r}' ({len(name)} characters); give 1 to {MAX_NAME} printable characters"
        raise Refused("bad_name", message, field)


def check_node_name(name: str) -> None:
    """Check the name of a node. It must not contain a character with a meaning in a list of nodes (``n[01-08],login``).

    Raises:
        Refused: ``bad_name``.
    """
    check_name(name, "node")
    if set(name) & set(SEPARATORS):
        message = f"node is '{name}'; a node's name can't contain {' '.join(SEPARATORS)}, because node lists use them"
        raise Refused("bad_name", message, "node")


def node_capacity(resources: Mapping[str, Amount], devices: Sequence[Device] = ()) -> Resources:
    """The amounts of a node, with those of its devices. What it states as ``gpu`` counts only if it lists no devices.

    Raises:
        Refused: ``too_many``, ``bad_name``, ``bad_quantity``, ``bad_devices``.
    """
    check_devices(devices)
    _check_number("resources", len(resources), MAX_KINDS, "types")
    for kind in resources:
        check_name(kind, "resources")
    capacity = parse_resources(resources)
    for kind, amount in capacity.items():
        try:
            check_node_amount(kind, amount)
        except ValueError as error:
            raise Refused("bad_quantity", f"{kind}: {error}", f"resources.{kind}") from None
    return offered(capacity, devices)


def check_devices(devices: Sequence[Device]) -> None:
    """Check the number of devices, and that each is a possible one with an id of its own.

    Raises:
        Refused: ``too_many``, ``bad_devices``.
    """
    _check_number("devices", len(devices), MAX_DEVICES, "devices")
    seen = set[str]()
    for device in devices:
        wrong = _wrong(device, seen)
        if wrong:
            raise Refused("bad_devices", f"the device '{cut(device.id)}' {wrong}", "devices")
        seen.add(device.id)


def _wrong(device: Device, seen: Collection[str]) -> str:
    """What is wrong with a device; empty if nothing is."""
    if not (0 < len(device.id) <= MAX_DEVICE_ID and device.id.isascii() and device.id.isprintable()):
        return f"has an id that is not 1 to {MAX_DEVICE_ID} printable ASCII characters"
    if set(device.id) & set(NOT_IN_IDS):
        return "has an id with a space, a comma or a quote, which the jobs' variables can't hold"
    if device.id in seen:
        return "is listed twice; each device needs an id of its own"
    if not is_model(device.model):
        lower = device.model.lower()
        instead = f"write {lower}" if is_model(lower) else "write lower case, such as a100 or a100-1g.10gb"
        return f"has the model '{cut(device.model)}'; {instead}"
    numbers = (device.index, device.group, device.memory)
    if not all(0 <= number <= most for number, most in zip(numbers, _MOST, strict=True)):
        return "has an index, group or memory that no device has"
    return _wrong_paths(device.path) if isinstance(device, ListedDevice) else ""


def _wrong_paths(paths: Collection[str]) -> str:
    if len(paths) > MAX_PATHS or not all(0 < len(path) <= MAX_PATH and path.isprintable() for path in paths):
        return f"has a path that is not 1 to {MAX_PATH} printable characters, or more than {MAX_PATHS} paths"
    return ""


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the number of labels, and their lengths. The longest lengths are those of Kubernetes.

    Raises:
        Refused: ``too_many``, ``bad_label``.
    """
    _check_number("labels", len(labels), MAX_LABELS, "labels")
    for key, value in labels.items():
        if key == NODE:
            raise Refused("bad_label", f"the label '{NODE}' is the node's own name; leave it out", "labels")
        if not 0 < len(key) <= MAX_LABEL_KEY or len(value) > MAX_LABEL_VALUE:
            message = (
                f"the label '{cut(key)}={cut(value)}' is too long; a key has 1 to {MAX_LABEL_KEY} characters, "
                f"a value at most {MAX_LABEL_VALUE}"
            )
            raise Refused("bad_label", message, "labels")


def check_running(running: int) -> None:
    """Check the number of allocations that a node reports as running.

    Raises:
        Refused: ``too_many``.
    """
    _check_number("running", running, MAX_RUNNING, "allocations")


def _check_number(field: str, number: int, most: int, what: str) -> None:
    if number > most:
        raise Refused("too_many", f"the node has {number} {what}, {most} are allowed", field)
