"""Looks at the streams again and again: their leaders, and the copies on other brokers."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec
from nats.js.api import ClusterInfo, PeerInfo
from nats.js.errors import NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.bus.outage import Spell
from rankd.bus.stream_alarm import LagClock, alarms
from rankd.bus.wanted_stream import wanted_streams
from rankd.wire.diag import FollowerDiag, StreamDiag

log = logging.getLogger("rankd.bus")

LOOK_EVERY_S = 5.0
ANSWER_S = 2.0
BOUND_S = 60.0
NANOSECONDS = 1e9


class StreamWatch:
    """What was found at the last look. :meth:`run` looks until cancelled."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lags = LagClock()
        self._trouble = Spell(log)
        self.found: list[StreamDiag] = []

    async def run(self) -> None:
        """Look every :data:`LOOK_EVERY_S` seconds. While there is no connection, the outage says everything."""
        loop = self._bus.loops.add("state of streams", BOUND_S)
        while True:
            if self._bus.client.is_connected:
                await self.run_once()
            loop.beat()
            await asyncio.sleep(LOOK_EVERY_S)

    async def run_once(self) -> None:
        """Ask for the state of each stream, and log the first alarm of a period with alarms.

        A look during which the connection was lost says nothing about the streams.
        """
        wanted = wanted_streams(self._bus.stream_bytes, self._bus.stream_replicas)
        before = self._bus.client.stats["reconnects"]
        found = [await self._look(str(config.name), config.num_replicas or 1) for config in wanted]
        if not self._bus.client.is_connected or self._bus.client.stats["reconnects"] != before:
            return
        self.found = found
        told = [alarm for one in self.found for alarm in one.alarms]
        if told:
            self._trouble.note(told[0], told[0])
        else:
            self._trouble.over("all streams have all their copies again")

    async def _look(self, name: str, wanted: int) -> StreamDiag:
        found = await self._asked(name, wanted)
        return msgspec.structs.replace(found, alarms=alarms(found))

    async def _asked(self, name: str, wanted: int) -> StreamDiag:
        try:
            info = await self._bus.client.jetstream(timeout=ANSWER_S).stream_info(name)
        except NotFoundError:
            return StreamDiag(name=name, wanted=wanted, is_missing=True)
        except LOST:
            return StreamDiag(name=name, wanted=wanted)
        copies = info.config.num_replicas or 1
        messages = info.state.messages
        if info.cluster is None:
            return StreamDiag(name=name, wanted=wanted, copies=copies, messages=messages, leader=self._own_name())
        followers = self._lags.note(name, _followers(info.cluster), time.monotonic())
        leader = info.cluster.leader
        return StreamDiag(
            name=name, wanted=wanted, copies=copies, messages=messages, leader=leader, followers=followers
        )

    def _own_name(self) -> str:
        """A server that is in no cluster leads its streams itself."""
        return str(self._bus.client._server_info.get("server_name", ""))  # noqa: SLF001 - there is no public way


def _followers(cluster: ClusterInfo) -> list[FollowerDiag]:
    return [_follower(peer) for peer in cluster.replicas or ()]


def _follower(peer: PeerInfo) -> FollowerDiag:
    return FollowerDiag(
        name=peer.name or "?",
        is_current=bool(peer.current),
        silent_s=(peer.active or 0) / NANOSECONDS,
        behind=peer.lag or 0,
    )
