"""Following the events of jobs: asked from rankd's records; the messages on the bus are hints that there are new ones.

Messages are lost while the broker, or this program's connection to it, is away. The ids of events only grow. So asking
for the events behind the last id gets each of them once and in order, whatever was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import Bus
from rankd.client.session import RETRY_PAUSE_S, repeat
from rankd.core.errors import Unavailable
from rankd.core.model.array import parse_name
from rankd.core.model.id_range import apart
from rankd.core.model.index_set import each
from rankd.wire.encoding import UNREADABLE, encode
from rankd.wire.message import DeadLetter, EventsRequest, JobEventList, JobEvents, Transition

FIRST_ANSWER_S = 10.0
"""How long to repeat the first request. Later requests are repeated for ever."""
ASK_EVERY_S = 5.0
"""Without a hint: a message may have been lost."""
ASK_TIMEOUT_S = 5.0
GATHER_S = 0.05
"""Messages that come within this time are one hint, so that a busy site is not asked more than 20 times a second."""
MOST_JOBS_ASKED = 1_000
"""A longer list is not sent with each request: its events are picked out here."""
LETTERS_KNOWN = 1_000


class Wanted(NamedTuple):
    """What to follow: where to ask, the subjects with the hints, whose jobs (None: all users'), and from when on.

    ``jobs``: only these; empty means all, and also the submissions that were refused. ``since`` is in UTC seconds;
    None: from now on.
    """

    ask: str
    hints: Sequence[str]
    users: list[str] | None
    jobs: frozenset[int | str]
    since: float | None


News = Sequence[Transition | DeadLetter]


class EventFollower:
    """Follows on one connection. ``skipped`` is called with each message that can't be decoded, and with the error."""

    def __init__(self, bus: Bus, wanted: Wanted, skipped: Callable[[Msg, Exception], None]) -> None:
        self._bus = bus
        self._wanted = wanted
        self._skipped = skipped
        self._hint = asyncio.Event()
        self._asking: asyncio.Timeout | None = None
        self._last = 0
        self._refused: list[DeadLetter] = []
        self._letters = deque[int](maxlen=LETTERS_KNOWN)
        named = apart(wanted.jobs)
        self._tasks, self._ranges = _named_tasks(named.names), named.ranges

    async def run(self) -> AsyncGenerator[News, None]:
        """Events and refused submissions, some at a time, for ever.

        Raises:
            Unavailable: rankd did not answer the first request in time.
            Refused: the asker may not see these events; ``not_authorized``: the broker accepts it no more.
        """
        await self._listen()
        answer = await repeat(lambda: self._ask(since=self._wanted.since), time.monotonic() + FIRST_ANSWER_S)
        while True:
            self._last = answer.last
            news: News = [*self._take_refused(), *self._chosen(answer)]
            if news:
                yield news
            if not answer.more:
                await self._wait()
            answer = await self._ask_for_ever()

    async def _listen(self) -> None:
        """Before the first request, so that no event falls between both."""
        self._bus.after_reconnect.append(self._on_reconnect)
        for subject in self._wanted.hints:
            await self._bus.client.subscribe(subject, cb=self._on_message)
        await self._bus.client.flush()

    async def _on_reconnect(self) -> None:
        """Ask, and do not wait for an answer that went to the connection before."""
        self._hint.set()
        if self._asking is not None and not self._asking.expired():
            self._asking.reschedule(asyncio.get_running_loop().time())

    async def _on_message(self, message: Msg) -> None:
        try:
            decoded = msgspec.json.decode(message.data, type=JobEvents)
        except UNREADABLE as error:
            self._skipped(message, error)
            self._hint.set()
            return
        refused = [] if self._wanted.jobs else [one for one in decoded.refused if one.id not in self._letters]
        self._letters.extend(letter.id for letter in refused)  # the relay repeats what was not acknowledged
        self._refused += refused
        if refused or any(event.id > self._last and self._is_wanted(event) for event in decoded.events):
            self._hint.set()

    async def _wait(self) -> None:
        """Return after a hint, or after :data:`ASK_EVERY_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_EVERY_S):
                await self._hint.wait()
                await asyncio.sleep(GATHER_S)
        self._hint.clear()

    async def _ask_for_ever(self) -> JobEventList:
        while True:
            try:
                async with asyncio.timeout(None) as self._asking:
                    return await self._ask(after=self._last)
            except TimeoutError:  # there is a new connection
                continue
            except Unavailable:
                self._bus.check_accepted()
                await asyncio.sleep(RETRY_PAUSE_S)
            finally:
                self._asking = None

    async def _ask(self, after: int | None = None, since: float | None = None) -> JobEventList:
        jobs = sorted(self._wanted.jobs, key=str) if 0 < len(self._wanted.jobs) <= MOST_JOBS_ASKED else None
        request = EventsRequest(after=after, since=since, users=self._wanted.users, jobs=jobs)
        return await self._bus.request(self._wanted.ask, encode(request), JobEventList, timeout_s=ASK_TIMEOUT_S)

    def _take_refused(self) -> list[DeadLetter]:
        taken, self._refused = self._refused, []
        return taken

    def _chosen(self, answer: JobEventList) -> list[Transition]:
        """The wanted events, as they are published: without the user."""
        fields = Transition.__struct_fields__
        chosen = [event for event in answer.events if self._is_wanted(event)]
        return [Transition(**{name: getattr(event, name) for name in fields}) for event in chosen]

    def _is_wanted(self, event: Transition) -> bool:
        """Whether the job is named, or its array, or it is a named task."""
        jobs = self._wanted.jobs
        whole = event.job if event.array_job is msgspec.UNSET else event.array_job
        return (
            not jobs
            or event.job in jobs
            or whole in jobs
            or (event.array_job, event.array_task) in self._tasks
            or any(whole in ids for ids in self._ranges)
        )


def _named_tasks(jobs: Iterable[int | str]) -> set[tuple[object, object]]:
    """The tasks that these names mean: their arrays and indices."""
    names = [parse_name(job) for job in jobs if isinstance(job, str)]
    return {(name.job, index) for name in names for index in each(name.indices)}
