"""Finds allocations that the intake counts on and nobody runs: an earlier agent took them and was lost with them.

What is still on its way is none of these. So a suspect is judged once all orders that were in the stream when the
intake named it have been taken; and once the intake has taken all reports, since an earlier agent may have sent the
true end, which must be heard first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nats.js.errors import NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.bus.liveness import IDLE_S, Loop
from rankd.services.agent_runner import Runner
from rankd.services.runtime import is_set
from rankd.wire.subject import STREAM_ALLOCATIONS, STREAM_REPORTS, encode_name

log = logging.getLogger("rankd.agent")

AUDITING = "audit"
INTAKE = "intake"
"""The intake's consumer of reports."""

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
        loop = self._bus.loops.add(AUDITING)
        while True:
            loop.beat()
            if not await is_set(self._wake, IDLE_S):
                continue
            self._wake.clear()
            suspects, self._suspects = self._suspects, {}
            await self._until_taken(STREAM_ALLOCATIONS, self._durable, loop)
            await self._until_taken(STREAM_REPORTS, INTAKE, loop)
            async with taking:
                for node, allocations in suspects.items():
                    await self._runner.miss(node, allocations)

    async def _until_taken(self, stream: str, durable: str, loop: Loop) -> None:
        """Until all that is in a stream by now has been taken by its consumer."""
        last = await self._last_sequence(stream)
        while not await self._is_taken(stream, durable, last):  # the broker tells nobody
            loop.beat()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _last_sequence(self, stream: str) -> int:
        while True:
            try:
                return (await self._bus.jetstream.stream_info(stream)).state.last_seq
            except LOST as error:
                log.debug("can't ask for the stream's end: %s", error)
                await asyncio.sleep(LOOK_EVERY_S)

    async def _is_taken(self, stream: str, durable: str, sequence: int) -> bool:
        """Whether everything up to this message has been carried out: it is acknowledged only then."""
        try:
            info = await self._bus.jetstream.consumer_info(stream, durable)
        except NotFoundError:
            return False
        except LOST as error:
            log.debug("can't ask how far %s is taken: %s", stream, error)
            return False
        floor = info.ack_floor.stream_seq if info.ack_floor else 0
        return floor >= sequence or (info.num_pending == 0 and info.num_ack_pending == 0)
