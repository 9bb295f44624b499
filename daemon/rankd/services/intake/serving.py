"""How an intake serves: what it answers, and what it does for as long as it has its role.

Where the database has standbys, every intake answers the requests of users. Whatever needs one place belongs to the one
that holds the role: nodes, the relay, retention, enqueued submissions, reports and logs, the configuration's files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import rankd
from rankd.bus.endpoint import Endpoints, IdempotentVerb, NodeHandler, Verb
from rankd.bus.health import answer_health, ask_all, own_health
from rankd.services.intake.attach_verb import AttachVerb
from rankd.services.intake.checkpoint_loop import run_checkpoints
from rankd.services.intake.class_verbs import class_verbs
from rankd.services.intake.dead_letter_verbs import DeadLetterVerbs
from rankd.services.intake.diag_verb import diag_verb
from rankd.services.intake.durable_submission import EnqueuedSubmissions
from rankd.services.intake.intake import LONG_ROUND_S, ROLE, Intake
from rankd.services.intake.node_verbs import node_verbs
from rankd.services.intake.offer import Offer
from rankd.services.intake.retention_sweep import run_sweeps
from rankd.services.intake.retry_verb import retry_verb
from rankd.services.intake.stream_verbs import StreamVerbs
from rankd.services.runtime.life import run_until, stay_alive, when

log = logging.getLogger("rankd.intake")

Charge = Callable[[], Awaitable[None]]
"""Returns when the intake has its role, and has done what the holder does first."""


class Serving:
    """What an intake offers and runs."""

    def __init__(self, intake: Intake) -> None:
        self._of = intake

    async def serve(self, stop: asyncio.Event, hangup: asyncio.Event, charge: Charge | None = None) -> None:
        """Answer requests until ``stop``; reload at every ``hangup``.

        ``charge`` returns when this intake has its role, and all for which it needs that; None: that is now.
        """
        requests = asyncio.TaskGroup()
        rate = lambda: self._of.configuration.settings.admission.max_requests_per_s  # noqa: E731 - read at each request
        of = self._of
        endpoints = Endpoints(of.bus, requests, rankd.__version__, rate, of.entry.enter, of.counts.answered)
        offer = Offer(endpoints, self._of.database, self.verbs(), self._of.hear)
        holds = asyncio.Event()

        async def drain() -> None:
            self._of.jobs.stop()
            await self._of.reports.close()
            await offer.end()

        async def hold() -> None:
            if charge is not None:
                await charge()
            await offer.add(self.holders_verbs(), self._verbs_of_nodes())
            self._of.database.note_ready(ROLE)
            holds.set()
            log.info("ready")

        try:
            async with requests:
                await offer.begin()
                if charge is None:
                    await hold()
                await answer_health(self._of.bus, ROLE, self._of.probe)
                await run_until(
                    stop,
                    self._of.bus.supervise(),
                    self._of.bus.loops.run("commits", LONG_ROUND_S, self._of.group.run),
                    self._of.estimates.run(),
                    self._of.inputs.run(self._of.bus.loops),
                    *((self._of.follow(), offer.run(self._of.bus.loops)) if self._of.is_beside else ()),
                    *(() if charge is None else (hold(),)),
                    *(when(holds, loop) for loop in self._holders_loops(hangup)),
                    drain=drain,
                )
        finally:
            self._of.users.close()
            await endpoints.turn_away()

    def _holders_loops(self, hangup: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """What only the holder of the role does."""
        return [
            stay_alive(self._of.database, ROLE, self._of.bus.loops),
            self._of.deliveries.run(),
            EnqueuedSubmissions(self._of.bus, ROLE, self._of.group, self._of.take, self._of.clock).run(),
            self._of.relay.run(),
            self._of.streams.run(),
            run_checkpoints(self._of.database, self._of.bus.loops),
            self._sweeps(),
            self._of.nodes.run(),
            self._of.keeper.on_hangup(hangup, self._of.bus.loops),
        ]

    def verbs(self) -> list[Verb | IdempotentVerb]:
        """What every intake answers: it depends on the records alone, or on what transactions compare with them."""
        of = self._of
        notifications = lambda: of.configuration.settings.notifications  # noqa: E731 - read at each request
        return [
            IdempotentVerb("job.submit", self._of.submit),
            Verb("job.test", self._of.test),
            retry_verb(self._of.looks.single, self._of.take_again),
            *self._of.jobs.verbs(),
            *self._of.looks.verbs(),
            *class_verbs(self._of.group, self._of.classes, self._of.use_classes),
            *DeadLetterVerbs(
                self._of.database, self._of.group, self._of.take, self._of.looks, notifications, self._of.clock
            ).verbs(),
        ]

    def holders_verbs(self) -> list[Verb | IdempotentVerb]:
        """What only the holder of the role answers: it depends on what nodes, files or the broker have told it."""
        of = self._of
        return [
            *of.sessions.verbs(),
            *AttachVerb(self._of.sessions, self._of.group, self._of.clock).verbs(),
            *self._of.reports.verbs(),
            diag_verb(
                self._of.looks.single,
                self._of.bus,
                lambda: own_health(self._of.bus, ROLE, self._of.probe),
                self._of.keeper.diag,
                lambda: self._of.deliveries.foreign.count,
                lambda: self._of.streams.found,
                self._of.clock,
                (lambda: ask_all(of.bus, ROLE)) if of.is_beside else None,
            ),
            self._of.keeper.verb(),
            *node_verbs(self._of.group, self._of.nodes.offered, self._of.clock),
            *StreamVerbs(
                self._of.database, self._of.bus, self._of.relay, self._of.streams, ROLE, self._of.clock
            ).verbs(),
        ]

    def _verbs_of_nodes(self) -> dict[str, tuple[str, NodeHandler]]:
        of_nodes = self._of.nodes.verbs() | self._of.deliveries.verbs() | self._of.devices.verbs()
        return of_nodes | self._of.sessions.node_verbs()

    async def _sweeps(self) -> None:
        beat = self._of.bus.loops.add("old records", LONG_ROUND_S).beat
        await run_sweeps(
            self._of.database, lambda: self._of.configuration.settings.retention, ROLE, beat, self._of.clock
        )
