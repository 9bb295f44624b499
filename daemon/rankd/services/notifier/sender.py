"""Sends what is due, as much at once as the lanes allow, and records what has become of it.

A notification is recorded as done after it was taken. If the notifier ends in between, it is sent again: receivers tell
copies by the event's id.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from rankd.bus.connection import Bus
from rankd.core.errors import RankdError, Unavailable
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.pace import Pauses, is_given_up, pause_after
from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.lane_load import LaneLoad
from rankd.services.notifier.statistic import NotifierStatistic
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Patience, Wake, announce
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.feed.notification import MOST_LANES, due_in, next_lane
from rankd.store.record.notification import Due, Outcome, Parcel, finish, prune_done
from rankd.wire.subject import NOTIFIER

log = logging.getLogger("rankd.notifier")

LOOK_EVERY_S = 1.0
PRUNE_EVERY_S = 60.0
ROUND_S = 60.0
DRAIN_S = 3.0

Send = Callable[[Parcel, NotificationSettings], Awaitable[None]]


class Sender:
    """The loop that sends. ``send`` makes one attempt."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        send: Send,
        settings: Callable[[], NotificationSettings],
        statistic: NotifierStatistic,
        clock: Clock,
        pauses: Pauses = Pauses(),  # noqa: B008 - frozen
    ) -> None:
        self.wake = Wake()
        self.load = LaneLoad()
        self._database = database
        self._bus = bus
        self._send = send
        self._settings = settings
        self._statistic = statistic
        self._clock = clock
        self._pauses = pauses
        self._taken = set[int]()
        self._outcomes = list[Outcome]()
        self._lane = ""
        self._is_closing = False
        self._pruned_at = 0.0

    async def run(self) -> None:
        """Send until cancelled. Attempts on their way are cancelled then; they are made again at the next start."""
        loop, patience = self._bus.loops.add("sending", ROUND_S), Patience("notifications", log)
        async with asyncio.TaskGroup() as group:
            while True:
                loop.beat()
                try:
                    await self._round(group)
                except Unavailable as error:
                    await patience.wait(error)
                else:
                    patience.over()
                    await self.wake.wait(LOOK_EVERY_S)

    async def drain(self) -> None:
        """Begin no more, wait a little for attempts on their way, and record what has become of them."""
        self._is_closing = True
        until = time.monotonic() + DRAIN_S
        while self.load.total and time.monotonic() < until:
            await self.wake.wait(DRAIN_S)
        await self.record()

    async def _round(self, group: asyncio.TaskGroup) -> None:
        await self.record()
        for due in [] if self._is_closing else await self.pick():
            group.create_task(self.attempt(due))
        if self._clock() - self._pruned_at > PRUNE_EVERY_S:
            self._pruned_at = self._clock()
            now = self._clock()
            while await self._database.write(lambda connection: prune_done(connection, now), role=NOTIFIER):
                pass

    async def pick(self) -> list[Due]:
        """What is to be sent now, by lanes in turn; it counts as taken from here on."""
        found = await self._database.read(self._look)
        picked = [due for due in found if self.load.begin(due.lane, due.parcel.user)]
        self._taken |= {due.id for due in picked}
        return picked

    def _look(self, connection: Connection) -> list[Due]:
        """The next notifications of some lanes, beginning behind the lane where the last look ended."""
        found, now = list[Due](), self._clock()
        for _ in range(MOST_LANES):
            lane = next_lane(connection, self._lane)
            self._lane = lane or ""
            if lane is None:
                break
            if number := self.load.room_in(lane):
                found += due_in(connection, lane, number, self._taken, now)
        return found

    async def attempt(self, due: Due) -> None:
        """Send one notification, and keep what has become of it for :meth:`record`."""
        begun, settings = time.monotonic(), self._settings()
        error: RankdError | None = None
        try:
            await self._send(due.parcel, settings)
        except RankdError as failed:
            error = failed
        except Exception as failed:  # one notification must not end the others
            log.exception("event %d could not be sent", due.parcel.event_id)
            error = AttemptFailed(f"rankd failed: {type(failed).__name__}")
        finally:
            self.load.end(due.lane, due.parcel.user)
        outcome = self._outcome(due, error, settings)
        self._outcomes.append(outcome)
        scheme = due.parcel.target.partition(":")[0]
        why = None if error is None else error.message
        self._statistic.tried(scheme, time.monotonic() - begun, why, is_over=outcome.again_at is None)
        self.wake.set()

    def _outcome(self, due: Due, error: RankdError | None, settings: NotificationSettings) -> Outcome:
        """What follows from an attempt: it is done, it is made again after a pause, or it is given up."""
        if error is None:
            return Outcome(due)
        again_at = self._clock() + pause_after(due.attempts + 1, self._pauses)
        is_final = not isinstance(error, AttemptFailed) or error.final
        if is_final or is_given_up(due.first_at, again_at, settings.retry_for_s):
            log.warning("the notification of event %d is given up: %s", due.parcel.event_id, error.message)
            return Outcome(due, error)
        log.info("event %d was not taken: %s", due.parcel.event_id, error.message)
        return Outcome(due, error, again_at)

    async def record(self) -> None:
        """Record what has become of attempts. Until then they count as taken."""
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes:
            return
        now = self._clock()
        try:
            await self._database.write(lambda connection: finish(connection, outcomes, now), role=NOTIFIER)
        except BaseException:
            self._outcomes = [*outcomes, *self._outcomes]
            raise
        self._taken -= {one.due.id for one in outcomes}
        if any(one.error is not None and one.again_at is None for one in outcomes):
            await announce(self._bus, NOTIFIER)
