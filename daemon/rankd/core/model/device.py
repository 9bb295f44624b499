"""Devices of nodes, such as GPUs. Each one has an id, and belongs to at most one running job.

Jobs ask for ``gpu`` (any model) or ``gpu:MODEL``. Inside rankd, amounts that name a model also have their sum as
``gpu``. So a limit of ``gpu`` counts all models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, TypeVar

import msgspec

GPU: Final = "gpu"
_OF_MODEL = GPU + ":"
MODEL: Final = re.compile(r"[a-z0-9._-]+")
LONGEST_MODEL: Final = 63


class DeviceState(StrEnum):
    """``ok`` devices are offered to new jobs, others are not; only ``failed`` ones do not count.

    ``taken``: a process outside of rankd uses it, or a job still holds the same card under another id. ``drained``: an
    administrator has taken it out of use.
    """

    OK = "ok"
    TAKEN = "taken"
    DRAINED = "drained"
    FAILED = "failed"


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device of a node. ``id`` is unique on the node. ``index``: the vendor's, in the order of the PCI bus.

    ``group``: devices with the same number are linked. ``memory``: bytes; 0 means unknown.
    """

    type: Literal["gpu"] = GPU
    model: str
    id: str
    index: int
    group: int = 0
    memory: int = 0
    state: DeviceState = DeviceState.OK


class ListedDevice(Device, frozen=True, kw_only=True):
    """A device as its node lists it. ``path``: its files, such as ``/dev/nvidia0``; several devices may share one."""

    path: tuple[str, ...] = ()


AnyDevice = TypeVar("AnyDevice", bound=Device)


class AssignedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device of a job, as the node's agent gets it: what its node listed when it was allocated."""

    id: str
    model: str
    index: int
    path: tuple[str, ...] = ()


def in_order(devices: Iterable[AnyDevice]) -> list[AnyDevice]:
    """The devices by index; equal indices (of several vendors) by id."""
    return sorted(devices, key=lambda device: (device.index, device.id))


def kind_of(model: str) -> str:
    """The resource type of a model.

    >>> kind_of("a100")
    'gpu:a100'
    """
    return _OF_MODEL + model


def model_of(kind: str) -> str | None:
    """The model that a resource type names; None for any other type.

    >>> model_of("gpu:a100"), model_of("gpu"), model_of("vcore")
    ('a100', None, None)
    """
    return kind.removeprefix(_OF_MODEL) if kind.startswith(_OF_MODEL) else None


def in_lower_case(kind: str) -> str:
    """The type as nodes offer it: a type of devices in lower case, any other one as it is.

    >>> in_lower_case("gpu:A100"), in_lower_case("FPGA")
    ('gpu:a100', 'FPGA')
    """
    lower = kind.lower()
    return lower if is_device_kind(lower) else kind


def is_device_kind(kind: str) -> bool:
    """Whether the type is ``gpu`` or ``gpu:MODEL``."""
    return kind == GPU or kind.startswith(_OF_MODEL)


def is_of(device: Device, kinds: Collection[str]) -> bool:
    """Whether a device is of one of these types of resource: ``gpu``, or ``gpu:`` and its model."""
    return GPU in kinds or kind_of(device.model) in kinds


def with_sum(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts, with at least the sum of all models as ``gpu``.

    >>> with_sum({"gpu:a100": 2, "gpu:v100": 1})
    {'gpu:a100': 2, 'gpu:v100': 1, 'gpu': 3}
    """
    of_models = sum(amount for kind, amount in amounts.items() if kind.startswith(_OF_MODEL))
    return {**amounts, GPU: max(of_models, amounts.get(GPU, 0))} if of_models else dict(amounts)


def without_sum(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts as a user asked for them: without ``gpu`` if they name models.

    >>> without_sum({"gpu": 2, "gpu:a100": 2})
    {'gpu:a100': 2}
    """
    names_models = any(kind.startswith(_OF_MODEL) for kind in amounts)
    return {kind: amount for kind, amount in amounts.items() if not (names_models and kind == GPU)}


def with_models(amounts: Mapping[str, int], models: Iterable[str]) -> dict[str, int]:
    """The amounts, where one device of each of ``models`` (with repeats) replaces those of ``gpu`` and of models.

    >>> with_models({"vcore": 1000, "gpu": 2}, ["a100", "a100"])
    {'vcore': 1000, 'gpu:a100': 2, 'gpu': 2}
    """
    others = {kind: amount for kind, amount in amounts.items() if not is_device_kind(kind)}
    counted = Counter(models)
    return with_sum(others | {kind_of(model): counted[model] for model in sorted(counted)})


def offered(amounts: Mapping[str, int], devices: Iterable[Device]) -> dict[str, int]:
    """The capacity of a node with these devices. Without devices, it may count GPUs that are not assigned to jobs."""
    listed = list(devices)
    if not listed:
        return with_sum(amounts)
    return with_models(amounts, [device.model for device in listed if device.state is not DeviceState.FAILED])


def with_failed(capacity: Mapping[str, int], devices: Sequence[Device]) -> dict[str, int]:
    """The capacity of a node as it is once its failed devices are offered again."""
    return with_models(capacity, [device.model for device in devices]) if devices else dict(capacity)


def price_of(model: str, billing: Mapping[str, float]) -> float:
    """The price of a device per second: that of its model, else that of ``gpu``, else 0."""
    return billing.get(_OF_MODEL + model, billing.get(GPU, 0.0))


def is_model(text: str) -> bool:
    """Whether this can be the name of a model.

    >>> is_model("a100-1g.10gb"), is_model("A100"), is_model("")
    (True, False, False)
    """
    return len(text) <= LONGEST_MODEL and MODEL.fullmatch(text) is not None
