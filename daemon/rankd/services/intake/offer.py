"""What an intake offers to answer, and that it offers nothing while it can't reach the database.

The broker gives each request to one of the intakes that listen. So one that is cut off from the database leaves, and
the others get the requests. It comes back when the database answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from rankd.bus.endpoint import Endpoints, IdempotentVerb, NodeHandler, Verb
from rankd.bus.liveness import Loops
from rankd.core.errors import Unavailable
from rankd.store.engine.database import Database

log = logging.getLogger("rankd.intake")

AnyVerb = Verb | IdempotentVerb
LOOK_EVERY_S = 1.0
SILENT_S = 3.0
"""A database that does not answer for this long is out of reach. A holder's lease lasts as long."""
ROUND_S = 60.0


class Offer:
    """``verbs`` are offered from :meth:`begin` on, others from :meth:`add` on.

    ``on_change`` is called with False when the intake stops listening, and with True when it listens again.
    """

    def __init__(
        self, endpoints: Endpoints, database: Database, verbs: Sequence[AnyVerb], on_change: Callable[[bool], None]
    ) -> None:
        self._endpoints = endpoints
        self._database = database
        self._on_change = on_change
        self._verbs = list(verbs)
        self._of_nodes: dict[str, tuple[str, NodeHandler]] = {}
        self._listens = False
        self._has_ended = False
        self._one_by_one = asyncio.Lock()
        self._asked: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Offer the verbs."""
        await self._endpoints.serve(self._verbs, self._of_nodes)
        self._listens = True

    async def add(self, verbs: Sequence[AnyVerb], of_nodes: Mapping[str, tuple[str, NodeHandler]]) -> None:
        """Offer these as well."""
        async with self._one_by_one:
            self._verbs += verbs
            self._of_nodes |= of_nodes
            if self._listens and not self._has_ended:
                await self._endpoints.serve(verbs, of_nodes)

    async def end(self) -> None:
        """Offer nothing any more; returns when all requests are answered."""
        async with self._one_by_one:
            self._has_ended = True
        await self._endpoints.drain()

    async def run(self, loops: Loops) -> None:
        """Leave while the database is out of reach, until cancelled."""
        loop = loops.add("reach of the database", ROUND_S)
        try:
            while True:
                loop.beat()
                await self.run_once()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            if self._asked is not None:
                self._asked.cancel()

    async def run_once(self) -> None:
        """Ask the database; leave or come back."""
        reaches = await self._reaches()
        async with self._one_by_one:
            if self._has_ended or reaches == self._listens:
                return
            if reaches:
                log.info("the database answers: requests are answered again")
                await self._endpoints.serve(self._verbs, self._of_nodes)
                self._on_change(True)
            else:
                log.warning("the database does not answer: the other intakes answer requests until it does")
                self._on_change(False)
                await self._endpoints.leave()
            self._listens = reaches

    async def _reaches(self) -> bool:
        """Whether the database answers in time. A question that waits is not asked again."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._database.ask())  # noqa: TID251 - its error is looked at
        await asyncio.wait([self._asked], timeout=SILENT_S)
        if not self._asked.done():
            return False
        asked, self._asked = self._asked, None
        try:
            asked.result()
        except Unavailable:
            return False
        return True
