"""Finds allocations that the intake counts on and nobody runs: an earlier agent took them and was lost with them.

What is still on its way is none of these. So a suspect is judged once everything that was in the stream when the
intake named it has been taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nats.js.errors import NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.services.agent_runner import Runner
from rankd.wire.subject import STREAM_ALLOCATIONS, encode_name

log = logging.getLogger("rankd.agent")

LOOK_EVERY_S = 0.2


class Audit:
    """Suspects by node, and the loop that judges them."""

    def __init__(self, bus: Bus, durable: str, runner: Runner) -> None:
        self._bus = bus
        self._durable = encode_name(durable)
        self._runner = runner
        self._suspects: dict[str, list[int]] = {}
        self._wake = asyncio.Event()

    def suspect(self, node: str, allocations: Sequence[int]) -> None:
        """The intake says that these are open."""
        if unknown := self._runner.unknown(node, allocations):
            self._suspects[node] = unknown
            self._wake.set()

    async def run(self, taking: asyncio.Lock) -> None:
        """For ever; ``taking`` is held while orders are carried out."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            suspects, self._suspects = self._suspects, {}
            last = await self._last_sequence()
            while not await self._is_taken(last):  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(LOOK_EVERY_S)
            async with taking:
                for node, allocations in suspects.items():
                    await self._runner.miss(node, allocations)

    async def _last_sequence(self) -> int:
        while True:
            try:
                return (await self._bus.jetstream.stream_info(STREAM_ALLOCATIONS)).state.last_seq
            except LOST as error:
                log.debug("can't ask for the stream's end: %s", error)
                await asyncio.sleep(LOOK_EVERY_S)

    async def _is_taken(self, sequence: int) -> bool:
        """Whether everything up to this message has been carried out: it is acknowledged only then."""
        try:
            info = await self._bus.jetstream.consumer_info(STREAM_ALLOCATIONS, self._durable)
        except NotFoundError:
            return False
        except LOST as error:
            log.debug("can't ask how far the orders are taken: %s", error)
            return False
        floor = info.ack_floor.stream_seq if info.ack_floor else 0
        return floor >= sequence or (info.num_pending == 0 and info.num_ack_pending == 0)
