"""Faults in a seeded random order: kill -9, STOP and CONT, restarts, cut and stalled links, killed keepers.

It sleeps between faults, and for as long as one lasts: time is what the faults are made of.
"""

from __future__ import annotations

import asyncio
import collections
import os
import random
import signal
from contextlib import suppress

from soak.cluster import Cluster

PAUSE_BETWEEN_S = (0.2, 1.5)
SHORT_S = (0.3, 2.0)
LONG_S = (2.0, 7.0)
"""Longer than a node may be silent."""


class Faults:
    """Runs them for a while; several may be at work at once, but one per process."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.count: collections.Counter[str] = collections.Counter()
        self._cluster = cluster
        self._random = random.Random(seed)
        self._busy: set[str] = set()

    async def run(self, seconds: float) -> None:
        """All are over when this returns."""
        end = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            while (left := end - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(min(left, self._random.uniform(*PAUSE_BETWEEN_S)))
                self._begin(group)

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """What comes next is drawn whatever runs at the moment, so that a seed means one sequence."""
        name = self._random.choice(self.names())
        kind = self._random.choice(self.kinds(name))
        duration = self._random.uniform(*self._random.choice([SHORT_S, SHORT_S, LONG_S]))
        which = self._random.random()
        parts = self.parts(name)
        if self._busy & parts:
            return
        self._busy |= parts
        self.count[f"{kind} {name}"] += 1
        group.create_task(self._alone(name, kind, duration, which))

    def names(self) -> list[str]:
        """What can be hit."""
        return [*self._cluster.children, "keeper", "client"]

    def parts(self, name: str) -> set[str]:
        """What is hit with it, and by nothing else meanwhile."""
        return {name}

    def kinds(self, name: str) -> list[str]:
        """What can happen to it."""
        kinds = {"nats": ["kill", "pause", "restart"], "keeper": ["kill"], "client": ["cut", "stall"]}
        return kinds.get(name, ["kill", "kill", "pause", "restart", "cut", "stall"])

    async def _alone(self, name: str, kind: str, duration: float, which: float) -> None:
        try:
            await self._fault(name, kind, duration, which)
        finally:
            self._busy -= self.parts(name)

    async def _fault(self, name: str, kind: str, duration: float, which: float) -> None:
        if name == "keeper":
            self._kill_keeper(which)
        elif kind in ("cut", "stall"):
            await self._part([name], kind, duration)
        else:
            await self._hit(name, kind, duration)

    async def _part(self, links: list[str], kind: str, duration: float) -> None:
        for name in links:
            link = self._cluster.links[name]
            link.cut() if kind == "cut" else link.stall()
        await asyncio.sleep(duration)
        for name in links:
            self._cluster.links[name].mend()

    def _kill_keeper(self, which: float) -> None:
        keepers = self._cluster.keepers()
        if keepers:
            with suppress(ProcessLookupError):
                os.kill(keepers[int(which * len(keepers))], signal.SIGKILL)

    async def _hit(self, name: str, kind: str, duration: float) -> None:
        child = self._cluster.children[name]
        if kind == "pause":
            child.signal(signal.SIGSTOP)
            await asyncio.sleep(duration)
            child.signal(signal.SIGCONT)
            return
        await (child.kill() if kind == "kill" else child.stop())
        await asyncio.sleep(duration if kind == "kill" else 0)
        await child.again()
