"""What rankd keeps of a node's devices, and the state that follows from it.

A card is known by its id, its index and its files. A node may list a card under another id while a job still holds it:
a file was edited, or the driver gave it another one. The card is then kept for that job all the same, until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.model.device import Device, DeviceState, ListedDevice
from rankd.core.model.device_report import DeviceNote

OF_DRIVERS = frozenset({"kfd", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"})
"""Files in /dev that all cards of a vendor share. They identify no card."""


class StoredDevice(ListedDevice, frozen=True, kw_only=True):
    """A device of a node, with the state that follows from all that is known.

    ``said``: what its agent said last; None means the same as ``state``. ``blocked``: which job still holds the card
    under another id, in words.
    """

    said: DeviceState | None = None
    blocked: str = ""


class DeviceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What administrators said about a device. It lasts, whatever its node registers.

    ``drained_by`` empty: it is not drained. ``resumed``: it is offered although its node's list says ``failed``.
    """

    drained_by: str = ""
    drained_at: float = 0.0
    reason: str = ""
    resumed: bool = False


class HeldCard(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a job holds, as it was when it was allocated.

    ``beside``: the ids of the devices that shared its index or a file with it then, such as other parts of its card.
    """

    job: int
    id: str
    index: int
    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def is_on(self, device: ListedDevice) -> bool:
        """Whether a device with another id is the same card."""
        if device.id == self.id or device.id in self.beside:
            return False
        shared = set(self.path).intersection(device.path)
        return device.index == self.index or any(path.rpartition("/")[2] not in OF_DRIVERS for path in shared)


def stored(device: Device) -> StoredDevice:
    """A device as its node has just registered it."""
    fields = {name: getattr(device, name) for name in ListedDevice.__struct_fields__ if hasattr(device, name)}
    return StoredDevice(**fields, said=device.state)


def beside(device: ListedDevice, listed: Iterable[ListedDevice]) -> tuple[str, ...]:
    """The ids of the other devices of the list that share the index or a file with this one."""
    own = HeldCard(job=0, id=device.id, index=device.index, path=device.path)
    return tuple(other.id for other in listed if own.is_on(other))


def with_states(
    devices: Sequence[StoredDevice],
    notes: Mapping[str, DeviceNote],
    orders: Mapping[str, DeviceOrder],
    cards: Iterable[HeldCard],
) -> list[StoredDevice]:
    """The devices with the states that follow from notes, orders (both by id), and the cards that jobs hold."""
    held = list(cards)
    return [_with_state(device, notes.get(device.id), orders.get(device.id, _NONE), held) for device in devices]


_NONE = DeviceOrder()


def _with_state(
    device: StoredDevice, note: DeviceNote | None, order: DeviceOrder, held: Sequence[HeldCard]
) -> StoredDevice:
    said = device.said or (note.state if note else device.state)
    by = next((card for card in held if card.is_on(device)), None)
    blocked = f"job {by.job} holds this card as {by.id}" if by else ""
    if (note and note.fault) or (said is DeviceState.FAILED and not order.resumed):
        state = DeviceState.FAILED
    elif order.drained_by:
        state = DeviceState.DRAINED
    elif blocked:
        state = DeviceState.TAKEN
    else:
        state = DeviceState.OK if said is DeviceState.FAILED else said
    return msgspec.structs.replace(device, state=state, said=said, blocked=blocked)
