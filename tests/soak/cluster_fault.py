"""Faults of a site with standbys: also whole heads, partitions between any two, promotions, steps of clocks."""

from __future__ import annotations

import asyncio

from soak.cluster import SERVICES
from soak.database_pair import NAMES
from soak.fault import Faults
from soak.lease_cluster import LeaseCluster

STEPS_S = (-1.5, 1.5)
"""Nodes that are silent for 4 s are lost, so a longer step of the clock would be one more fault."""
PRIMARY = "primary"
REPLICATION = " ".join(NAMES)
WITHOUT_ITS_OWN_LINK = ("postgres", "nats")


class ClusterFaults(Faults):
    """``head-N`` is all services of a head, ``A B`` the link between two servers, ``primary`` whichever that is."""

    _cluster: LeaseCluster

    def names(self) -> list[str]:
        between = [name for name in self._cluster.links if name.startswith(WITHOUT_ITS_OWN_LINK)]
        return [*super().names(), *between, *self._cluster.heads(), PRIMARY]

    def parts(self, name: str) -> set[str]:
        if name == PRIMARY:
            return {*NAMES, REPLICATION}
        return {*self._cluster.heads().get(name, ()), name}

    def kinds(self, name: str) -> list[str]:
        if name == PRIMARY:
            return ["promote"]
        if name in self._cluster.heads():
            return ["kill", "kill", "pause", "cut", "stall"]
        if name.startswith(WITHOUT_ITS_OWN_LINK):
            return ["cut", "stall"] if " " in name else ["kill", "pause", "restart"]
        if name.partition("-")[0] not in SERVICES:
            return super().kinds(name)
        kinds = ["kill", "kill", "pause", "pause", "restart", "cut", "stall", "cut-db", "stall-db", "apart"]
        return [*kinds, "clock" if name in self._cluster.clocks else "pause"]  # as many, so that a seed means one order

    async def _fault(self, name: str, kind: str, duration: float, which: float) -> None:
        if kind == "promote":
            await self._cluster.pair.promote(duration)
        elif kind == "clock":
            self._cluster.step(name, STEPS_S[0] + which * (STEPS_S[1] - STEPS_S[0]))
            await asyncio.sleep(duration)
            self._cluster.step(name, 0)
        elif kind in ("cut-db", "stall-db"):
            await self._part([f"{name} db"], kind.removesuffix("-db"), duration)
        elif kind == "apart":
            await self._part([f"{name} db", name], "stall", duration)
        elif name in self._cluster.heads():
            await self._hit_head(self._cluster.heads()[name], kind, duration)
        else:
            await super()._fault(name, kind, duration, which)

    async def _hit_head(self, services: list[str], kind: str, duration: float) -> None:
        """All services of a head at once, as when its machine stops, or its network does."""
        if kind in ("cut", "stall"):
            await self._part([link for name in services for link in (name, f"{name} db")], kind, duration)
            return
        async with asyncio.TaskGroup() as group:
            for name in services:
                group.create_task(self._hit(name, kind, duration))
