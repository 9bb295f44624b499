"""What open tabs are sent: each view is made once for all who see the same, at most twice a second.

One loop looks whether anything is new, and makes the views that somebody follows. Hints of services that have written
something wake it, so that a change after a quiet time is shown at once. A tab holds only the newest state of
its view, so a slow client costs no memory: what it missed is in what it gets next. A client that takes nothing for
a while is told to load the page again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from zlib import crc32

import msgspec

from rankd.bus.outage import Spell
from rankd.core.errors import RankdError
from rankd.services.runtime.life import Wake, is_set
from rankd.services.web.records import Records
from rankd.store.look.newest import Newest
from rankd.store.look.web.look import NOBODY
from rankd.store.look.web.site import NEWEST

log = logging.getLogger("rankd.web")

EVERY_S = 0.5
"""Views are made at most so often, and a tab gets one at most so often."""
LOOK_S = 0.5
"""Without a hint from a service, the records are looked at so often."""
SETTLE_S = 0.05
"""After a hint: what is submitted has its rank some milliseconds later, and one view shows both."""
MOST_TABS, MOST_TABS_PER_USER = 600, 250
MOST_VIEWS = 300
"""Different views that are followed at a time: each is made again for every change."""
BEAT_S = 15.0
"""A comment is sent so often to a tab to which nothing else was: it shows that the connection still works."""
SLOW_S = 20.0
"""A tab that takes longer to take in one view is told to load the page again, and its stream ends."""
AT_LEAST_S = 30.0
"""A view is made so often although nothing is new: waiting times go on, and nodes fall silent."""

Key = tuple[str, ...]
Make = Callable[[], Awaitable[str]]
MayGoOn = Callable[[], Awaitable[bool]]


async def always() -> bool:
    """A stream that nothing ends."""
    return True


class Frame(msgspec.Struct, frozen=True):
    """A view's content, and the mark of the records that it shows. ``sent``: the event that tabs get, made once."""

    mark: str
    html: str
    sent: bytes


class _View:
    def __init__(self, make: Make) -> None:
        self.make = make
        self.frame: Frame | None = None
        self.tabs = 0
        self.changed = asyncio.Event()


class Live:
    """All open tabs. :meth:`run` makes the views; :meth:`follow` is one tab's stream."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._views: dict[Key, _View] = {}
        self._tabs = 0
        self._by_user: Counter[str] = Counter()
        self._first: dict[Key, asyncio.Task[str]] = {}
        """Views that are being made for tabs that have just come."""
        self._stopping = False
        self.wake = Wake()
        """Set when a service has written something, or a tab has nothing yet."""
        self.problem: str | None = None
        """Why nothing new can be read at present."""
        self.newest: Newest | None = None

    @property
    def tabs(self) -> int:
        """How many are open."""
        return self._tabs

    async def run(self) -> None:
        """Look for what is new until cancelled."""
        spell, at, before = Spell(log), 0.0, None
        clock = asyncio.get_running_loop().time
        while True:
            try:
                found = await self._records.look(NEWEST, NOBODY, {})
                self.problem = None
                spell.over("the records can be read again")
                if found != before or clock() - at > AT_LEAST_S:
                    self.newest, before, at = found, found, clock()
                    await self._make_all()
                    await asyncio.sleep(_rest_s(clock() - at))
                else:
                    await self._make_missing()
            except RankdError as error:
                self.problem = error.message
                spell.note(f"the records can't be read: {error.message}", "the records still can't be read")
                await asyncio.sleep(EVERY_S)
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait until something may be new."""
        await self.wake.wait(LOOK_S)
        await asyncio.sleep(SETTLE_S)

    def stop(self) -> None:
        """End the streams of all tabs. They connect again when the service is back."""
        self._stopping = True
        for view in self._views.values():
            view.changed.set()

    async def _make_all(self) -> None:
        for view in list(self._views.values()):
            await self._make(view)

    async def _make_missing(self) -> None:
        for view in list(self._views.values()):
            if view.frame is None:
                await self._make(view)

    async def _make(self, view: _View) -> None:
        """Make a view again. One that fails stays as it is; the others go on."""
        try:
            html = await view.make()
        except RankdError as error:
            log.info("a view can't be made: %s", error.message)
            return
        except Exception:  # a view that shows a bug must not end the page for the others
            log.exception("a view can't be made")
            return
        if view.frame is None or view.frame.html != html:
            mark = ".".join(str(number) for number in (*(self.newest or ()), crc32(html.encode())))
            view.frame = Frame(mark, html, event("view", html, mark))
            changed, view.changed = view.changed, asyncio.Event()
            changed.set()

    async def begin(self, key: Key, make: Make) -> None:
        """Make a view that nobody follows yet, so that who may not see it is refused.

        Tabs that come together share this: after a restart, hundreds come at once.

        Raises:
            RankdError: the view can't be made for this visitor.
        """
        view = self._views.get(key)
        if view is not None and view.frame is not None:
            return
        if (first := self._first.get(key)) is None:
            first = self._first[key] = asyncio.get_running_loop().create_task(_made(make))
            first.add_done_callback(lambda _: self._first.pop(key, None))
        await asyncio.shield(first)

    def has_room(self, key: Key, user: str) -> bool:
        """Whether another tab of this user may follow this view. Visitors without a name share one room."""
        if self._by_user[user] >= MOST_TABS_PER_USER:
            return False
        return self._tabs < MOST_TABS and (key in self._views or len(self._views) < MOST_VIEWS)

    async def follow(
        self, key: Key, make: Make, last: str, user: str, may_go_on: MayGoOn = always
    ) -> AsyncGenerator[bytes, None]:
        """One tab's stream of server-sent events. ``last``: the mark of the last one that it has had.

        ``may_go_on`` is asked before anything is sent. If it says no, the tab is told to load the page again.
        """
        loop = asyncio.get_running_loop()
        view = self._views.setdefault(key, _View(make))
        view.tabs += 1
        self._tabs += 1
        self._by_user[user] += 1
        if view.frame is None:
            self.wake.set()
        try:
            yield b"retry: 1000\n\n"
            sent = last
            while not self._stopping:
                if not await may_go_on():
                    yield event("reload", "this session is over", "")
                    return
                changed, frame = view.changed, view.frame
                if frame is not None and frame.mark != sent:
                    sent, began = frame.mark, loop.time()
                    yield frame.sent
                    if loop.time() - began > SLOW_S:
                        yield event("reload", "this tab takes nothing in", "")
                        return
                    await asyncio.sleep(EVERY_S)
                elif not await is_set(changed, BEAT_S):
                    yield b": alive\n\n"
        finally:
            self._tabs -= 1
            self._by_user -= Counter([user])
            view.tabs -= 1
            if not view.tabs and self._views.get(key) is view:
                del self._views[key]


async def _made(make: Make) -> str:
    return await make()


def _rest_s(spent_s: float) -> float:
    """How long to rest after the views were made.

    So they are made twice a second at most, and while they take no longer than half a second, in half of the time.

    >>> _rest_s(0.1), _rest_s(0.3), _rest_s(9.0)
    (0.4, 0.3, 0.5)
    """
    return max(EVERY_S - spent_s, min(spent_s, EVERY_S))


def event(name: str, data: str, mark: str) -> bytes:
    r"""A server-sent event.

    >>> event("view", "<p>\n1", "7")
    b'id: 7\nevent: view\ndata: <p>\ndata: 1\n\n'
    """
    lines = "\n".join(f"data: {line}" for line in data.replace("\r", "\n").split("\n"))
    return f"id: {mark}\nevent: {name}\n{lines}\n\n".encode()
