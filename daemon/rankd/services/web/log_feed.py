"""The log of a job in a tab: what the job writes, followed over the bus with the rights of the visitor.

A tab gets the newest part of the stream as a whole, at most twice a second. So a slow tab costs no memory. A job that
writes faster than a tab reads costs no more than the windows of the agent: what is far behind is left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec
from markupsafe import escape

from rankd.bus.log_stream import LogStream
from rankd.core.errors import RankdError, Unavailable
from rankd.services.web.asking import Asking
from rankd.services.web.live import EVERY_S, event
from rankd.services.web.log_text import MOST_BYTES, LogText
from rankd.services.web.template import Template
from rankd.wire.session import LOG_EMPTIED, JobLog

MOST_LOGS, MOST_LOGS_PER_USER = 100, 20
FAR_BYTES = 512 * 2**10
"""A tab that is so far behind goes on with the newest part."""
AGAIN_S = 1.5
"""Between attempts to read what can't be read now, such as the log of a job that has not started."""
PATIENCE_S = 20.0
OVER = "end"
"""The event after which a tab does not connect again."""
LATER = frozenset({"not_started", LOG_EMPTIED})
"""Refusals that time may mend."""


class Wanted(NamedTuple):
    """What a tab follows. ``is_over`` returns whether the job writes no more; ``may_go_on``, whether the tab may."""

    user: str
    log: JobLog
    is_over: Callable[[], Awaitable[bool]]
    may_go_on: Callable[[], Awaitable[bool]]


class LogFeed:
    """The open logs of all tabs."""

    def __init__(self, asking: Asking, template: Template) -> None:
        self._asking = asking
        self._template = template
        self._open: Counter[str] = Counter()

    def check_room(self, user: str) -> None:
        """Check that this user may follow another log.

        Raises:
            Unavailable: ``too_many_logs``.
        """
        if self._open[user] >= MOST_LOGS_PER_USER or self._open.total() >= MOST_LOGS:
            message = "too many logs are followed on this page; close other tabs, or use `rankd logs --follow`"
            raise Unavailable("too_many_logs", message)

    async def follow(self, wanted: Wanted) -> AsyncGenerator[bytes, None]:
        """One tab's stream of server-sent events."""
        try:
            self.check_room(wanted.user)  # again: others that came at the same moment have begun meanwhile
        except Unavailable:
            yield event(OVER, "", "")
            return
        self._open[wanted.user] += 1
        try:
            yield b"retry: 2000\n\n"
            sent = ""
            async with aclosing(self._contents(wanted)) as contents:
                async for html in contents:
                    if not await wanted.may_go_on():
                        return
                    yield b": alive\n\n" if html == sent else event("log", html, "")
                    sent = html
            yield event(OVER, "", "")
        finally:
            self._open -= Counter([wanted.user])

    async def _contents(self, wanted: Wanted) -> AsyncGenerator[str, None]:
        """What the tab shows, again and again, until nothing more can come."""
        shown = LogText()
        while True:
            note, is_over = "", False
            try:
                async with aclosing(self._texts(wanted)) as texts:
                    async for text in texts:
                        shown = text
                        yield self._html(shown, "")
                is_over = await wanted.is_over()
                note = "The job has ended." if is_over else "This run has ended."
            except RankdError as error:
                note, is_over = error.message, not (isinstance(error, Unavailable) or error.code in LATER)
            yield self._html(shown, note)
            if is_over:
                return
            await asyncio.sleep(AGAIN_S)

    async def _texts(self, wanted: Wanted) -> AsyncGenerator[LogText, None]:
        """The newest part of the stream, to the end of one run.

        Raises:
            RankdError: it can't be read, or not any more.
        """
        is_behind, at, log = True, 0.0, LogText()
        clock = asyncio.get_running_loop().time
        while is_behind:
            is_behind, is_new, stream = False, True, await self._opened(wanted)
            async with aclosing(stream.parts(beats=True)) as parts:
                async for part in parts:
                    if part and is_new:  # until then, what was shown before stays
                        log, is_new = LogText(), False
                    log.take(part, is_from_within=stream.begins_at > 0)
                    is_behind = stream.behind_bytes > FAR_BYTES
                    if stream.behind_bytes and not is_behind and clock() - at < EVERY_S:
                        continue
                    await asyncio.sleep(max(0.0, at + EVERY_S - clock()))
                    at = clock()
                    yield log
                    if is_behind:
                        break

    async def _opened(self, wanted: Wanted) -> LogStream:
        """A stream that begins with the newest part.

        Raises:
            RankdError: the refusal.
        """
        log = msgspec.structs.replace(wanted.log, tail_bytes=MOST_BYTES, follow=True)
        stream = LogStream(self._asking.bus, self._asking.reader(wanted.user), log, patience_s=PATIENCE_S)
        try:
            await stream.open()
        except BaseException:
            await stream.leave()
            raise
        return stream

    def _html(self, log: LogText, note: str) -> str:
        return self._template.render("_log.html", text=escape(log.shown()), is_cut=log.is_cut, note=note)
