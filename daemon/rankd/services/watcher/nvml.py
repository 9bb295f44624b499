"""NVIDIA's cards, through NVIDIA's own library. The one place that calls it; each call may hang if a card is sick."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pynvml as library

from rankd.core.model.device import Device
from rankd.services.watcher.linked import groups_of
from rankd.services.watcher.message import LONGEST_FAULT, MOST_PROCESSES, Seen
from rankd.services.watcher.model_name import instance_name, model_name

T = TypeVar("T")

LIBRARY = "libnvidia-ml.so.1"
CAUSED_BY_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""XID errors that a faulty program causes, by NVIDIA's list. The card is well, or any user could take it away."""
_BROKEN = frozenset({library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED})
_EVENTS = library.nvmlEventTypeXidCriticalError | library.nvmlEventTypeDoubleBitEccError
_CAPABILITY = re.compile(r"gpu(\d+)/gi(\d+)/(?:ci(\d+)/)?access (\d+)")


class Card(NamedTuple):
    """A card or a part of one: what does not change while it exists."""

    device: Device
    paths: list[str]
    whole: str
    """The id of the card that it is a part of, or its own."""


class Memory(NamedTuple):
    """In bytes. ``used``: by programs, as nvidia-smi shows it, without what the driver keeps for itself."""

    total: int
    used: int


class Nvml:
    """The library, initialised. ``root``: where /proc, /sys and /dev are.

    Raises:
        OSError: there is no such library.
        library.NVMLError: it can't be used, for example because the driver is not loaded.
    """

    def __init__(self, name: str = LIBRARY, root: Path = Path("/")) -> None:
        library.nvmlLib = ctypes.CDLL(name)
        library.nvmlInit()
        self._root = root
        self._faults: dict[str, str] = {}
        self._ecc: dict[str, int] = {}
        self._groups: tuple[list[str], dict[str, int]] = ([], {})
        self._events = library.nvmlEventSetCreate()
        self._watched: set[str] = set()
        self._lost: set[str] = set()
        self._known: dict[int, list[tuple[Card, object]]] = {}
        self._sampled: dict[str, int] = {}
        """The time of each card's last sample of its utilisation, in the driver's microseconds."""

    def look(self) -> list[Seen]:
        """All cards; of cards in parts (MIG), their parts. A card that is lost is as it was when it was seen last."""
        handles: dict[int, object] = {}
        count = library.nvmlDeviceGetCount()
        self._known = {index: cards for index, cards in self._known.items() if index < count}
        for index in range(count):
            try:
                handles[index] = library.nvmlDeviceGetHandleByIndex(index)
            except library.NVMLError as error:
                self._lose(index, error)
        ids = {index: library.nvmlDeviceGetUUID(handle) for index, handle in handles.items()}
        by_id = {ids[index]: handle for index, handle in handles.items()}
        if self._groups[0] != list(by_id):
            self._groups = (list(by_id), self._linked(by_id))
        for index, handle in handles.items():
            self._lost.discard(ids[index])
            self._watch(ids[index], handle)
            self._known[index] = list(self._cards(index, ids[index], handle))
        return [
            self._seen(card, part if index in handles else None)
            for index, cards in sorted(self._known.items())
            for card, part in cards
        ]

    def _lose(self, index: int, error: library.NVMLError) -> None:
        """Note that a card can't be reached any more.

        Raises:
            library.NVMLError: it was not known before, or the error is another one.
        """
        if error.value not in _BROKEN or index not in self._known:
            raise error
        for card, _ in self._known[index]:
            if card.whole not in self._lost:
                self._lost.add(card.whole)
                self._note(card.whole, str(error))

    def wait(self, timeout_s: float) -> bool:
        """Wait for an error of a card, for at most this time; returns whether one makes a card unfit."""
        try:
            event = library.nvmlEventSetWait(self._events, int(timeout_s * 1000))
        except library.NVMLError as error:
            if error.value != library.NVML_ERROR_TIMEOUT:
                raise
            return False
        is_xid = event.eventType == library.nvmlEventTypeXidCriticalError
        if is_xid and event.eventData in CAUSED_BY_PROGRAMS:
            return False
        text = f"XID {event.eventData}" if is_xid else "an uncorrectable memory error (ECC)"
        self._note(library.nvmlDeviceGetUUID(event.device), text)
        return True

    def _note(self, id_: str, fault: str) -> None:
        """Keep an error with its time, which tells two errors of one kind apart."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._faults[id_] = f"{fault[: LONGEST_FAULT - len(at) - 4]} at {at}"

    def _watch(self, id_: str, handle: object) -> None:
        """Register for errors of a card, once; and compare its count of memory errors with the one before."""
        if id_ not in self._watched:
            self._watched.add(id_)
            _supported(lambda: library.nvmlDeviceRegisterEvents(handle, _EVENTS, self._events))
        uncorrected, volatile = library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC
        count = _supported(lambda: library.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile))
        if count is not None:  # a reset of the card's counts makes them smaller
            before, self._ecc[id_] = self._ecc.get(id_, count), count
            if count > before:
                self._note(id_, f"{count} uncorrectable memory errors (ECC)")

    def _cards(self, index: int, id_: str, handle: object) -> Iterator[tuple[Card, object]]:
        model = model_name(library.nvmlDeviceGetName(handle))
        minor = library.nvmlDeviceGetMinorNumber(handle)
        paths, group = [str(self._root / f"dev/nvidia{minor}")], self._groups[1].get(id_, 0)
        mode = _supported(lambda: library.nvmlDeviceGetMigMode(handle))
        if not mode or mode[0] != library.NVML_DEVICE_MIG_ENABLE:
            memory = _memory(handle)
            device = Device(model=model, id=id_, index=index, group=group, memory=memory.total if memory else 0)
            yield Card(device, paths, id_), handle
            return
        for number in range(library.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with suppress(library.NVMLError_NotFound, library.NVMLError_InvalidArgument):
                part = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
                measures = library.nvmlDeviceGetAttributes(part)
                memory_bytes = measures.memorySizeMB * 2**20
                name = library.nvmlDeviceGetName(part)
                device = Device(
                    model=instance_name(model, name, measures.gpuInstanceSliceCount, memory_bytes),
                    id=library.nvmlDeviceGetUUID(part),
                    index=index,
                    group=group,
                    memory=memory_bytes,
                )
                yield Card(device, paths + self._capabilities(minor, part), id_), part

    def _capabilities(self, minor: int, part: object) -> list[str]:
        """The files that give access to a part of a card: one of its GPU instance, one of its compute instance."""
        of = (str(minor), str(library.nvmlDeviceGetGpuInstanceId(part)))
        compute = str(library.nvmlDeviceGetComputeInstanceId(part))
        listed = (self._root / "proc/driver/nvidia-caps/mig-minors").read_text()
        found = [match.groups() for match in map(_CAPABILITY.fullmatch, listed.splitlines()) if match]
        return [
            str(self._root / f"dev/nvidia-caps/nvidia-cap{number}")
            for gpu, instance, ci, number in found
            if (gpu, instance) == of and ci in (None, compute)
        ]

    def _seen(self, card: Card, handle: object | None) -> Seen:
        fault = self._faults.get(card.whole)
        if handle is None:
            return Seen(device=card.device, paths=card.paths, fault=fault, problem=fault)
        try:
            busy = self._busy(card.device.id, handle)
            memory = _memory(handle)
            processes = _processes(handle)
        except library.NVMLError as error:
            return Seen(device=card.device, paths=card.paths, fault=fault, problem=str(error)[:LONGEST_FAULT])
        return Seen(
            device=card.device,
            paths=card.paths,
            busy=busy,
            memory_used=None if memory is None else memory.used,
            pids=processes,
            fault=fault,
        )

    def _busy(self, id_: str, handle: object) -> float | None:
        """The mean utilisation since the last look, 0 to 1: of all samples that the driver has taken.

        At the first look, and where the driver keeps no samples, it is the present utilisation; None without any.
        """
        before = self._sampled.get(id_)
        samples = _samples(handle, before or 0)
        if samples:
            self._sampled[id_] = max(sample.timeStamp for sample in samples)
        if samples and before is not None:
            return min(1.0, sum(int(sample.sampleValue.uiVal) for sample in samples) / len(samples) / 100)
        rates = _supported(lambda: library.nvmlDeviceGetUtilizationRates(handle))
        return None if rates is None else min(1.0, rates.gpu / 100)

    def _linked(self, handles: dict[str, object]) -> dict[str, int]:
        addresses = {id_: _address(handle) for id_, handle in handles.items()}
        by_address = {address: id_ for id_, address in addresses.items()}
        links = [(id_, by_address.get(other, other)) for id_, handle in handles.items() for other in _others(handle)]
        near = {id_: self._memory_node(address) for id_, address in addresses.items()}
        return groups_of(list(handles), links, near)

    def _memory_node(self, address: str) -> int:
        with suppress(OSError, ValueError):
            return max(0, int((self._root / "sys/bus/pci/devices" / address / "numa_node").read_text()))
        return 0


def _others(handle: object) -> Iterator[str]:
    """What the links of a card lead to: addresses of other cards, or one word for the switch that joins all."""
    for link in range(library.NVML_NVLINK_MAX_LINKS):
        if _supported(lambda: library.nvmlDeviceGetNvLinkState(handle, link)):  # noqa: B023 - called at once
            kind = _supported(lambda: library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))  # noqa: B023
            if kind == library.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                yield "switch"
                return
            other = _supported(lambda: library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))  # noqa: B023
            if other is not None:
                yield _short(other.busId)


def _memory(handle: object) -> Memory | None:
    """The memory of a card. Older drivers only know a form whose used memory has the driver's own in it."""
    found = _supported(lambda: library.nvmlDeviceGetMemoryInfo(handle, library.nvmlMemory_v2))
    found = found or _supported(lambda: library.nvmlDeviceGetMemoryInfo(handle))
    return None if found is None else Memory(found.total, found.used)


def _samples(handle: object, since: int) -> Sequence[Any]:
    """The samples of a card's utilisation after this time; empty if there are none, or the driver keeps none."""
    with suppress(library.NVMLError_NotFound):
        kind = library.NVML_GPU_UTILIZATION_SAMPLES
        found = _supported(lambda: library.nvmlDeviceGetSamples(handle, kind, since))
        return [] if found is None else [sample for sample in found[1] if sample.timeStamp > since]
    return []


def _processes(handle: object) -> list[int]:
    """The processes that compute on a card. Older drivers do not know the newest form of the question."""
    for ask in (library.nvmlDeviceGetComputeRunningProcesses_v3, library.nvmlDeviceGetComputeRunningProcesses_v2):
        answer = _supported(lambda: ask(handle))  # noqa: B023 - called at once
        if answer is not None:
            return [process.pid for process in answer][:MOST_PROCESSES]
    return []


def _address(handle: object) -> str:
    return _short(library.nvmlDeviceGetPciInfo(handle).busId)


def _short(address: bytes | str) -> str:
    """A PCI address as /sys writes it: lower case, with a domain of four digits."""
    text = address.decode() if isinstance(address, bytes) else address
    return text.lower()[-len("0000:00:00.0") :]


def _supported(ask: Callable[[], T]) -> T | None:
    """The answer; None if the card or the driver does not support the question, or we may not ask it."""
    try:
        return ask()
    except (
        library.NVMLError_NotSupported,
        library.NVMLError_FunctionNotFound,
        library.NVMLError_NoPermission,
        library.NVMLError_InvalidArgument,
    ):
        return None
