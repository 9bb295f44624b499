"""Requests over a connection to the broker that is made once, and made again by itself when it was lost."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.client.async_channel import GATHER_S
from rankd.client.error import Closed
from rankd.client.job_output import JobOutput
from rankd.client.session import CONNECT_TIMEOUT_S, check_site, credentials_for
from rankd.client.step import Ask, Pause
from rankd.client.target import Way
from rankd.core.errors import Unavailable
from rankd.wire.session import JobLog
from rankd.wire.subject import job_event, job_event_pattern

for _name in ("rankd", "nats"):  # a program that configures no logging gets exceptions, and no lines besides
    logging.getLogger(_name).addHandler(logging.NullHandler())


class AsyncBusChannel:
    """Asks the broker. Connects with the first request."""

    def __init__(self, way: Way) -> None:
        self._place = way.place
        self._who = way.who
        self._bus: Bus | None = None
        self._opening = asyncio.Lock()
        self._listens = False
        self._asking = set[asyncio.Timeout]()
        self._news = asyncio.Event()
        self._is_closed = False
        self.heard = 0

    async def largest(self) -> int:
        """See :class:`.AsyncChannel`."""
        return (await self._connected()).client.max_payload

    async def request(self, ask: Ask) -> Any:  # noqa: ANN401 - the request says which kind
        """See :class:`.AsyncChannel`. An answer that went to the connection before is not waited for."""
        bus = await self._connected()
        scope = asyncio.timeout(None)
        self._asking.add(scope)
        try:
            async with scope:
                return await bus.request(self._who.subject(ask.verb), ask.payload, ask.kind, timeout_s=ask.timeout_s)
        except TimeoutError:
            if not scope.expired():
                raise
            message = f"the connection was lost while '{ask.verb}' was asked; it is not known whether it took place"
            raise Unavailable("connection_lost", message) from None
        except Unavailable:
            if self._is_closed:
                raise Closed from None
            bus.check_accepted()
            raise
        finally:
            self._asking.discard(scope)

    async def output(self, wanted: JobLog) -> JobOutput:
        """What a job writes, read over this connection."""
        return JobOutput(await self._connected(), self._who, wanted)

    async def _connected(self) -> Bus:
        async with self._opening:
            if self._is_closed:
                raise Closed
            if self._bus is None:
                self._bus = await self._connect()
            return self._bus

    async def _connect(self) -> Bus:
        place = self._place
        url, credentials = place.need_nats(), await asyncio.to_thread(credentials_for, place)
        bus = Bus(url, "client", connect_timeout_s=CONNECT_TIMEOUT_S, credentials=credentials, tls=place.tls)
        await bus.__aenter__()
        try:
            if place.is_both and place.database is not None:
                await check_site(bus, place.database, self._who.user)
        except BaseException:
            await bus.__aexit__(None, None, None)
            raise
        bus.after_reconnect.append(self._on_reconnect)
        return bus

    async def _on_reconnect(self) -> None:
        now = asyncio.get_running_loop().time()
        for scope in self._asking:
            if not scope.expired():
                scope.reschedule(now)
        self._hear()

    async def listen(self) -> None:
        """See :class:`.AsyncChannel`."""
        bus = await self._connected()
        if self._listens:
            return
        subject = job_event_pattern() if self._who.admin and not self._who.is_claim else job_event(self._who.user)
        try:
            await bus.client.subscribe(subject, cb=self._on_message)
            self._listens = True
            await bus.client.flush()
        except LOST as error:
            raise Unavailable("no_answer", f"the broker does not answer: {type(error).__name__}") from error

    async def _on_message(self, _message: Msg) -> None:
        self._hear()

    def _hear(self) -> None:
        self.heard += 1
        self._news.set()

    async def pause(self, pause: Pause, heard: int) -> None:
        """See :class:`.AsyncChannel`."""
        if not self._listens:
            await asyncio.sleep(pause.polled_s)
            return
        if self.heard == heard:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause.hinted_s):
                    await self._news.wait()
        await asyncio.sleep(min(GATHER_S, pause.hinted_s))

    async def close(self) -> None:
        """See :class:`.AsyncChannel`."""
        self._is_closed = True
        self._hear()
        async with self._opening:
            bus, self._bus = self._bus, None
        if bus is not None:
            await bus.__aexit__(None, None, None)
