"""The cards of a real node, as its watcher sees them: which there are, who uses them, and what jobs do with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Mapping

from rankd.bus.liveness import IDLE_S, Loops
from rankd.core.model.device import Device, ListedDevice
from rankd.core.model.device_report import MOST_USES, DeviceNote, DeviceUse
from rankd.services.agent.device_denial import DeviceDenial
from rankd.services.agent.device_owner import Owner, Owners, sees_all_processes
from rankd.services.agent.device_state import FINE, DeviceStatus, changed, status_of, unseen
from rankd.services.agent.device_usage import Usage
from rankd.services.agent.device_watch import DeviceWatch, Machine
from rankd.services.runtime.life import is_set
from rankd.services.watcher.message import Look, Seen

log = logging.getLogger("rankd.agent")

WATCH_LOOP, LOOK_LOOP = "devices", "looks at devices"
WATCH_BOUND_S = 60.0
MOST_WAITING = 10 * MOST_USES
"""Uses that wait to be reported while the intake does not answer; the oldest are dropped."""


class DeviceMonitor:
    """``holders``: the allocation that holds each device; ``running``: all allocations that run here.

    ``on_list`` is called when other devices are there than before; ``on_news`` when there is something to report.
    """

    def __init__(
        self,
        machine: Machine,
        owners: Owners,
        denial: DeviceDenial,
        holders: Callable[[], Mapping[str, int]],
        running: Callable[[], Container[int]],
    ) -> None:
        self.on_list: Callable[[], None] = lambda: None
        self.on_news: Callable[[], None] = lambda: None
        self._owners = owners
        self._denial = denial
        self._holders = holders
        self._running = running
        self._sees_all = sees_all_processes()
        self._watch = DeviceWatch(machine, self._looked)
        self._latest: Look | None = None
        self._fresh = asyncio.Event()
        self._seen: dict[str, Seen] = {}
        self._statuses: dict[str, DeviceStatus] = {}
        self._told: dict[str, DeviceStatus] = {}
        self._told_faults: dict[str, str] = {}
        self._registered: dict[str, DeviceStatus] = {}
        self._usages: dict[tuple[int, str], Usage] = {}
        self._over: list[DeviceUse] = []
        self._has_cards = False

    def devices(self) -> list[ListedDevice]:
        """The cards with their states and files, as a registration lists them."""
        self._registered = {id_: DeviceStatus(state=status.state) for id_, status in self._statuses.items()}
        return [_listed(seen, self._statuses.get(id_, FINE)) for id_, seen in self._seen.items()]

    async def begin(self) -> None:
        """Find the cards, before the agent registers."""
        self._has_cards = await self._watch.begin()
        if self._has_cards:
            await self.run_once()
            log.info("%s", self._found())

    def _found(self) -> str:
        models = sorted(seen.device.model for seen in self._seen.values())
        listed = ", ".join(f"{models.count(model)} {model}" for model in dict.fromkeys(models)) or "none yet"
        blind = "" if self._sees_all else "; processes outside of jobs are NOT seen from this container"
        return f"devices found: {listed}{blind}"

    async def run(self, loops: Loops) -> None:
        """Handle looks until cancelled. Returns at once on a machine without cards."""
        if not self._has_cards:
            return
        loops.reasons.append(self._watch.waits_for)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run(loops.add(WATCH_LOOP, WATCH_BOUND_S)))
            loop = loops.add(LOOK_LOOP, WATCH_BOUND_S)
            while True:
                loop.beat()
                if await is_set(self._fresh, IDLE_S):
                    await self.run_once()

    def _looked(self, look: Look | None) -> None:
        self._latest = look
        self._fresh.set()

    async def run_once(self) -> None:
        """Handle the latest look."""
        self._fresh.clear()
        look, before = self._latest, self._statuses
        if look is None:
            problem = self._watch.waits_for() or "they can't be looked at"
            self._statuses = unseen(self._seen, problem)
        else:
            owners = await asyncio.to_thread(self._find_owners, look)
            self._take_in(look, owners)
        if changed(before, self._statuses) or self._faults():
            self.on_news()

    def _faults(self) -> dict[str, str]:
        """The errors that were not reported yet. Each has its time, so the same error later is another one."""
        found = {id_: seen.fault for id_, seen in self._seen.items() if seen.fault}
        return {id_: fault for id_, fault in found.items() if self._told_faults.get(id_) != fault}

    def _find_owners(self, look: Look) -> dict[int, Owner]:
        if not self._sees_all:
            return {}
        pids = {pid for seen in look.devices for pid in seen.pids}
        return {pid: owner for pid in pids if (owner := self._owners.of(pid))}

    def _take_in(self, look: Look, owners: Mapping[int, Owner]) -> None:
        seen = {each.device.id: each for each in look.devices}
        has_others = _cards(seen) != _cards(self._seen)
        self._seen = seen
        running = self._running()
        self._statuses = {id_: status_of(each, owners, running) for id_, each in seen.items()}
        self._sample(time.monotonic())
        if has_others:
            self._denial.offer(_cards(seen))
            self.on_list()

    def _sample(self, now_s: float) -> None:
        """Add a sample for each device that a job holds, and close the books of jobs that have ended."""
        held = {(allocation, id_) for id_, allocation in self._holders().items() if id_ in self._seen}
        for key in held:
            usage = self._usages.setdefault(key, Usage(now_s))
            if usage.add(now_s, self._seen[key[1]].busy, self._seen[key[1]].memory_used):
                self.on_news()
        for key in set(self._usages) - held:
            self._over.append(_use(key, self._usages.pop(key)))
            self.on_news()
        del self._over[:-MOST_WAITING]

    def notes(self) -> list[DeviceNote]:
        """The states and errors that were not reported yet. :meth:`told` says that they were recorded."""
        states, faults = changed(self._told, self._statuses), self._faults()
        return [
            _note(id_, self._statuses.get(id_, FINE), faults.get(id_, "")) for id_ in dict.fromkeys([*states, *faults])
        ]

    def told(self, notes: list[DeviceNote]) -> None:
        """These were recorded."""
        self._told |= {note.id: _status(note) for note in notes}
        self._told_faults |= {note.id: note.fault for note in notes if note.fault}

    def tell_again(self) -> None:
        """The node was registered again. The states that it listed are known; who takes a card has to be reported.

        Errors are in the records.
        """
        self._told = dict(self._registered)
        self.on_news()

    def uses(self) -> list[DeviceUse]:
        """What jobs did since the last call of this, of at most :data:`MOST_USES` jobs and devices."""
        over, self._over = self._over[:MOST_USES], self._over[MOST_USES:]
        running = list(self._usages)[: MOST_USES - len(over)]
        return over + [_use(key, self._usages[key]) for key in running]

    def has_ended_uses(self) -> bool:
        """Whether there is something to report of jobs that have ended."""
        return bool(self._over)

    async def close(self) -> None:
        """End the watcher."""
        await self._watch.close()


def _listed(seen: Seen, status: DeviceStatus) -> ListedDevice:
    fields = {name: getattr(seen.device, name) for name in Device.__struct_fields__}
    return ListedDevice(**{**fields, "state": status.state}, path=tuple(seen.paths))


def _cards(seen: Mapping[str, Seen]) -> list[ListedDevice]:
    """The cards without their states."""
    return [_listed(each, FINE) for each in seen.values()]


def _use(key: tuple[int, str], usage: Usage) -> DeviceUse:
    report = usage.report()
    return DeviceUse(
        allocation=key[0],
        id=key[1],
        recent=report.recent,
        busy=report.busy,
        samples=report.samples,
        peak_bytes=report.peak_bytes,
        idle_s=report.idle_s,
    )


def _note(id_: str, status: DeviceStatus, fault: str) -> DeviceNote:
    return DeviceNote(id=id_, state=status.state, by=status.by, reason=status.reason, fault=fault)


def _status(note: DeviceNote) -> DeviceStatus:
    return DeviceStatus(state=note.state, by=note.by, reason=note.reason)
