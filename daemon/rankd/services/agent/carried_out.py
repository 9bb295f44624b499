"""Orders for running jobs: passed on to the keeper, and which it has carried out, until the intake has recorded that.

The intake repeats an order until it is named here. Whoever holds the job carries it out once, so a repetition changes
nothing, also if another agent asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rankd.services.keeper.message import OrderJob
from rankd.wire.delivery import MOST_CARRIED_OUT
from rankd.wire.message import JobOrder

log = logging.getLogger("rankd.agent")

MOST_NAMED = 1_000
"""The log names this many allocations of a keeper of an older version. Further ones only repeat the message."""


class CarriedOut:
    """The ids of orders, by node. ``tell`` is called with the node of each new one: the intake is to be told.

    ``ask`` hands an order to the keeper. None: the keeper is of an older version, which knows none.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] = lambda _node: None
        self.ask: Callable[[OrderJob], None] | None = None
        self._refused: set[int] = set()
        self._ids: dict[str, set[int]] = {}

    def pass_on(self, orders: Iterable[JobOrder]) -> None:
        """Hand these orders to the keeper."""
        for one in orders:
            if self.ask is None:
                self._refuse(one.allocation)
                continue
            order = OrderJob(allocation=one.allocation, order=one.id, signal=one.signal, time_limit_s=one.time_limit_s)
            self.ask(order)

    def _refuse(self, allocation: int) -> None:
        """Log once that it gets no orders: the intake repeats them until the job ends."""
        if allocation in self._refused or len(self._refused) >= MOST_NAMED:
            return
        self._refused.add(allocation)
        message = "allocation %d gets no signals and no new time limit: its keeper is of an older version"
        log.warning(message, allocation)

    def add(self, node: str, order: int) -> None:
        """An order is carried out."""
        self._ids.setdefault(node, set()).add(order)
        self.tell(node)

    def of(self, node: str) -> list[int]:
        """The first of those that the intake does not know yet, ascending: as many as a request may have."""
        return sorted(self._ids.get(node, ()))[:MOST_CARRIED_OUT]

    def recorded(self, node: str, orders: Iterable[int]) -> None:
        """The intake knows these."""
        left = self._ids.get(node, set()).difference(orders)
        if left:
            self._ids[node] = left
        else:
            self._ids.pop(node, None)
