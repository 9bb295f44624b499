"""Waiting until jobs have ended, and following events of jobs: asked from rankd's records, told when by the broker.

Ids of events only grow. So asking for the events behind the last id gets each of them once and in order, whatever was
lost on the way. Where nobody tells of news, the records are asked again and again, ever less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rankd.client.error import WaitTimeout
from rankd.client.step import RETRY_PAUSE_S, Ask, Effort, Listen, Pause, Plan, answer
from rankd.core.errors import Unavailable
from rankd.core.model.array import parse_name
from rankd.core.model.index_set import count, each
from rankd.core.model.job_state import FINAL_STATES
from rankd.wire.encoding import encode
from rankd.wire.event import JobEventList, UserTransition
from rankd.wire.job_record import JobRecord
from rankd.wire.job_selection import JobName
from rankd.wire.page import EventsRequest, JobShow

FIRST_POLL_S, LAST_POLL_S, POLL_GROWTH = 0.05, 2.0, 1.3
HINTED_S = 5.0
"""Where the broker tells of news: one may have been lost."""
LOOK_AGAIN_S = 15.0
"""Jobs of other users have no events for the asker, and records may be restored from a backup."""
MOST_LOOKED_AGAIN = 200
MOST_NAMED = 1_000
"""More jobs are not named in each request for events: the wanted ones are picked out here."""
FOR_EVER = float("inf")
ENDS_TASKS = frozenset({"cancel", "run_out", "match"})
"""Events of an array by which tasks without a record may end."""


def next_pause(last: float | None) -> float:
    """How long to wait before asking again where nobody tells of news. ``last``: the pause before."""
    return FIRST_POLL_S if last is None else min(last * POLL_GROWTH, LAST_POLL_S)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to follow. ``jobs`` None: all; ``users`` None: all that the asker may see."""

    jobs: list[JobName] | None = None
    users: list[str] | None = None


def begin(wanted: Wanted, effort: Effort, after: int | None, since: float | None) -> Plan[JobEventList]:
    """The first events, and from which id on to ask for more. Without ``after`` and ``since``: only the id."""
    yield Listen()
    request = EventsRequest(after=after, since=since, users=wanted.users, jobs=wanted.jobs)
    found: JobEventList = yield from answer(_events(request), effort)
    return found


def more(wanted: Wanted, effort: Effort, last: int) -> Plan[JobEventList]:
    """The next events after the id ``last``: at least one, however long that takes."""
    pause = None
    while True:
        request = EventsRequest(after=last, users=wanted.users, jobs=wanted.jobs)
        found: JobEventList = yield from answer(_events(request), effort, until=FOR_EVER)
        if found.events:
            return found
        last = found.last
        if not found.more:
            pause = next_pause(pause)
            yield Pause(pause, HINTED_S)


def _events(request: EventsRequest) -> Ask:
    return Ask("job.events", encode(request), JobEventList)


def wait_for(
    names: Sequence[JobName], effort: Effort, timeout_s: float | None = None, *, gives_up: bool = False
) -> Plan[list[JobRecord]]:
    """The records of these jobs, arrays and tasks, in their order, once all of them have ended.

    A name of several tasks stands for each of them. Once rankd has answered, its absence is waited out;
    ``gives_up``: only for the time of the effort.

    Raises:
        WaitTimeout: some have not ended after ``timeout_s``.
        Refused: one of them does not exist, or is another user's that can't be seen.
    """
    waiting = _Waiting(names, effort, timeout_s, gives_up=gives_up)
    yield Listen()
    start: JobEventList = yield from answer(_events(EventsRequest()), effort)
    last, pause = start.last, None
    yield from waiting.look(list(waiting.left))
    try:
        while waiting.left:
            pause = next_pause(pause)
            yield from waiting.pause(pause)
            found: JobEventList = yield from waiting.events(last)
            last = found.last
            if names_ended := waiting.ended_in(found.events):
                pause = None
                yield from waiting.look(names_ended)
            yield from waiting.look_again()
    except Unavailable as error:
        if waiting.is_late:
            raise WaitTimeout(list(waiting.left)) from error
        raise
    return [waiting.ended[name] for name in waiting.names]


class _Waiting:
    """The jobs that are waited for: those left, and the records of those that have ended."""

    def __init__(self, names: Iterable[JobName], effort: Effort, timeout_s: float | None, *, gives_up: bool) -> None:
        self._gives_up = gives_up
        self.names = [single for name in names for single in _singles(name)]
        self.left = dict.fromkeys(self.names)
        self.ended: dict[JobName, JobRecord] = {}
        self._tasks: dict[str, list[str]] = {}
        for name in self.names:
            if isinstance(name, str):
                self._tasks.setdefault(name.partition("_")[0], []).append(name)
        self._effort = effort
        self._until = FOR_EVER if timeout_s is None else effort.clock() + timeout_s
        self._looked_at = effort.clock()
        self._is_first = True

    def look(self, names: Iterable[JobName]) -> Plan[None]:
        """Look at the records of these jobs."""
        for name in names:
            ask = Ask("job.show", encode(JobShow(id=name)), JobRecord)
            record: JobRecord = yield from answer(ask, self._effort, until=self._patience())
            if record.state in FINAL_STATES:
                self.ended[name] = record
                self.left.pop(name, None)
        self._is_first = False

    def _patience(self) -> float | None:
        """Until when to repeat a request: for the first ones as for others, then as long as this waits."""
        return None if self._is_first or self._gives_up else self._until

    @property
    def is_late(self) -> bool:
        """Whether there is no time left to ask again."""
        return self._effort.clock() + RETRY_PAUSE_S >= self._until

    def look_again(self) -> Plan[None]:
        """Look at some of those left, the longest not looked at first, if it is time for it."""
        if self._effort.clock() < self._looked_at + LOOK_AGAIN_S:
            return
        self._looked_at = self._effort.clock()
        some = list(self.left)[:MOST_LOOKED_AGAIN]
        for name in some:
            self.left[name] = self.left.pop(name)
        yield from self.look(some)

    def pause(self, polled_s: float) -> Plan[None]:
        """Wait for news.

        Raises:
            WaitTimeout: there is no time left.
        """
        left_s = self._until - self._effort.clock()
        if left_s <= 0:
            raise WaitTimeout(list(self.left))
        yield Pause(min(polled_s, left_s), min(HINTED_S, left_s))

    def events(self, last: int) -> Plan[JobEventList]:
        """The events after the id ``last``, from all pages."""
        jobs = list(self.left) if len(self.left) <= MOST_NAMED else None
        found = list[UserTransition]()
        while True:
            ask = _events(EventsRequest(after=last, jobs=jobs))
            page: JobEventList = yield from answer(ask, self._effort, until=self._patience())
            found += page.events
            if not page.more:
                return msgspec.structs.replace(page, events=found)
            last = page.last

    def ended_in(self, events: Iterable[UserTransition]) -> list[JobName]:
        """Those left that may have ended by these events."""
        found = dict[JobName, None]()
        for event in events:
            if event.state in FINAL_STATES:
                task = f"{event.array_job}_{event.array_task}"
                found |= {name: None for name in (event.job, task) if name in self.left}
            if event.state in FINAL_STATES or event.event in ENDS_TASKS:
                found |= {name: None for name in self._tasks.get(str(event.job), ()) if name in self.left}
        return list(found)


def _singles(name: JobName) -> list[JobName]:
    """The jobs and single tasks that a name stands for."""
    parsed = parse_name(name)
    if count(parsed.indices) <= 1:
        return [parsed.job if not parsed.indices else str(parsed)]
    return [f"{parsed.job}_{task}" for task in each(parsed.indices)]
