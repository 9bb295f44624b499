"""The agent requests its nodes' allocations from the intake.

A hint of the scheduler on the node's subject, or the answer to a heartbeat, says that something waits. Only the answer
to a request says what. If an answer is lost on its way, the next request names all allocations that the node knows, and
the intake answers with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from nats.aio.msg import Msg

from rankd.bus.connection import Bus
from rankd.bus.liveness import IDLE_S
from rankd.core.errors import RankdError
from rankd.services.agent.runner import Order, Runner
from rankd.services.runtime.life import is_set
from rankd.wire.codec import encode
from rankd.wire.message import AllocationMessage, Take
from rankd.wire.subject import node_of, node_subject

log = logging.getLogger("rankd.agent")

ASK_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
SIDE_BY_SIDE = 64
LOOP = "taking of allocations"
BOUND_S = 60.0
"""A round asks, syncs, and hands hundreds of jobs to the keeper, on a machine that is busy with running them."""


class _Answer(NamedTuple):
    """The answer to a node's request; None without an answer."""

    node: str
    message: AllocationMessage | None


class AllocationRequests:
    """The nodes for which allocations wait, and the loop that requests them.

    ``busy`` is held from a request until its answer is carried out. Hold it to end the loop: then no allocation of an
    answer is forgotten. ``on_unknown`` is called when the intake does not know this agent.
    """

    def __init__(
        self, bus: Bus, agent: str, nodes: Sequence[str], runner: Runner, on_unknown: Callable[[], None]
    ) -> None:
        self.busy = asyncio.Lock()
        self._bus = bus
        self._agent = agent
        self._nodes = frozenset(nodes)
        self._runner = runner
        self._on_unknown = on_unknown
        self._due: set[str] = set()
        self._compare: set[str] = set()
        self._wake = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        self._slots = asyncio.Semaphore(SIDE_BY_SIDE)

    async def listen(self) -> None:
        """Subscribe to the scheduler's hints."""

        async def on_hint(message: Msg) -> None:
            self.wake([node_of(message.subject)])

        for node in self._nodes:
            await self._bus.client.subscribe(node_subject(node, "allocation"), cb=on_hint)

    def wake(self, nodes: Iterable[str]) -> None:
        """Allocations wait for these nodes."""
        self._due |= self._nodes.intersection(nodes)
        if self._due:
            self._wake.set()

    def compare(self, nodes: Iterable[str]) -> None:
        """An allocation may have been lost: the next request of these nodes names all allocations that they know."""
        listed = list(nodes)
        self._compare |= self._nodes.intersection(listed)
        self.wake(listed)

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Request allocations for ever, while jobs can be run. Tasks of ``group`` watch the jobs that were started."""
        loop = self._bus.loops.add(LOOP, BOUND_S)
        while True:
            loop.beat()
            if not await is_set(self._wake, IDLE_S):
                continue
            if self._runner.unable or not await self.run_once(group):
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            else:
                self._pause_s = FIRST_PAUSE_S

    async def run_once(self, group: asyncio.TaskGroup) -> bool:
        """Ask for each node that has allocations waiting, and carry out the answers; whether all of that succeeded."""
        async with self.busy:
            self._wake.clear()
            nodes, self._due = self._due, set()
            answers = await asyncio.gather(*(self._ask(node) for node in nodes))
            failed = [answer.node for answer in answers if answer.message is None]
            orders = [Order(answer.node, answer.message) for answer in answers if answer.message is not None]
            failed += await self._carry_out(orders, group)
        self.wake(order.node for order in orders if order.message.more)
        if failed:
            self.compare(failed)
        return not failed

    async def _carry_out(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> list[str]:
        """Carry the orders out; returns the nodes that have to compare.

        These are all nodes if that failed, else those that are to end an allocation which they do not know.
        """
        try:
            await self._runner.take(orders, group)
        except OSError as error:
            log.error("can't start jobs: %s; they wait", error.strerror or error)  # noqa: TRY400
            return [order.node for order in orders]
        return [order.node for order in orders if self._runner.unknown(order.node, order.message.cancels)]

    async def _ask(self, node: str) -> _Answer:
        compare = node in self._compare
        self._compare.discard(node)
        known = self._runner.known(node) if compare else None
        request = Take(agent=self._agent, known=known, instance=self._runner.instance)
        try:
            async with self._slots:
                message = await self._bus.request(
                    node_subject(node, "take"), encode(request), AllocationMessage, timeout_s=ASK_TIMEOUT_S
                )
        except RankdError as error:
            log.log(self._bus.wait_level, "%s takes nothing yet: %s", node, error.message)
            if error.code == "unknown_node":
                self._on_unknown()
            return _Answer(node, None)
        return _Answer(node, message)
