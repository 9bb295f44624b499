"""The agent requests its nodes' allocations from the intake.

A hint of the scheduler on the node's subject, or the answer to a heartbeat, says only that allocations wait. The answer
to a request lists them. If an answer is lost, the next request names all allocations that the node knows, and the
intake answers with the others.
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
HELD_PAUSE_S = 1.0
"""Between two requests for a start that waits for the end of another job of its node."""
SIDE_BY_SIDE = 64
LOOP = "taking of allocations"
BOUND_S = 60.0
"""The longest round: it requests, syncs, and hands hundreds of jobs to the keeper while the machine is busy."""


class _Answer(NamedTuple):
    """A node and the intake's answer to its request; ``message`` is None if there was no answer."""

    node: str
    message: AllocationMessage | None


class AllocationRequests:
    """The nodes for which allocations wait, and the loop that requests them.

    ``busy`` is held from a request until its answer is carried out. Acquire it before ending the loop, so that no
    allocation of an answer is forgotten. ``on_unknown`` is called when the intake does not know this agent.
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
        self._told = ""
        self._slots = asyncio.Semaphore(SIDE_BY_SIDE)

    async def listen(self) -> None:
        """Subscribe to the scheduler's hints."""

        async def on_hint(message: Msg) -> None:
            self.wake([node_of(message.subject)])

        for node in self._nodes:
            await self._bus.client.subscribe(node_subject(node, "allocation"), cb=on_hint)

    def wake(self, nodes: Iterable[str]) -> None:
        """Note that allocations wait for these nodes."""
        self._due |= self._nodes.intersection(nodes)
        if self._due:
            self._wake.set()

    def compare(self, nodes: Iterable[str]) -> None:
        """Let the next request of these nodes name all allocations that they know, because one may have been lost."""
        listed = list(nodes)
        self._compare |= self._nodes.intersection(listed)
        self.wake(listed)

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Request allocations until cancelled, while jobs can be run. Tasks of ``group`` watch the started jobs."""
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
        """Request for each node that has allocations waiting, and carry out the answers.

        Returns whether every request and every order succeeded.
        """
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
        """Carry the orders out; returns the nodes that have to compare their allocations with the intake.

        If carrying out failed, these are all nodes. Otherwise they are the nodes that were asked to end an allocation
        which they do not know.
        """
        try:
            waiting = await self._runner.take(orders, group)
        except OSError as error:
            log.error("can't start jobs: %s; they will be requested again", error.strerror or error)  # noqa: TRY400
            return [order.node for order in orders]
        self._request_later(waiting, orders)
        return [order.node for order in orders if self._runner.unknown(order.node, order.message.cancels)]

    def _request_later(self, waiting: Sequence[str], orders: Sequence[Order]) -> None:
        """Request starts again that have to wait, without a delay of anything else."""
        if waiting:
            if waiting[0] != self._told:
                log.info("%s; it is requested again every %g s", waiting[0], HELD_PAUSE_S)
            nodes = [order.node for order in orders if order.message.starts]
            asyncio.get_running_loop().call_later(HELD_PAUSE_S, self.compare, nodes)
            self._told = waiting[0]

    async def _ask(self, node: str) -> _Answer:
        compare = node in self._compare
        self._compare.discard(node)
        known = self._runner.known(node) if compare else None
        done = self._runner.carried_out.of(node)
        request = Take(agent=self._agent, known=known, instance=self._runner.instance, carried_out=done)
        try:
            async with self._slots:
                message = await self._bus.request(
                    node_subject(node, "take"), encode(request), AllocationMessage, timeout_s=ASK_TIMEOUT_S
                )
        except RankdError as error:
            log.log(self._bus.wait_level, "%s gets no allocations yet: %s", node, error.message)
            if error.code == "unknown_node":
                self._on_unknown()
            return _Answer(node, None)
        self._runner.carried_out.recorded(node, done)
        return _Answer(node, message)
