"""A wire between a process and the broker that can be cut and stalled."""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK = 65536


class Link:
    """Relays one local port to the broker's. ``cut()`` drops and refuses, ``stall()`` lets nothing through."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._relaying: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def urls(self) -> list[str]:
        return [self.url]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        while self._relaying:
            await asyncio.wait(self._relaying)
        await self._server.wait_closed()

    def cut(self) -> None:
        self._is_cut = True
        self._flowing.set()
        for writer in self._open:
            writer.transport.abort()

    def stall(self) -> None:
        self._flowing.clear()

    def mend(self) -> None:
        self._is_cut = False
        self._flowing.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = asyncio.current_task()
        self._relaying.add(task)
        task.add_done_callback(self._relaying.discard)
        try:
            if not self._is_cut:
                await self._to_broker(reader, writer)
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _to_broker(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A broker that is away is to the process as one that hangs up at once: its connection is dropped."""
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except ConnectionError:
            return
        self._open.add(broker_writer)
        if self._is_cut:  # meanwhile
            broker_writer.transport.abort()
        try:
            await asyncio.gather(self._pump(reader, broker_writer), self._pump(broker_reader, writer))
        finally:
            self._open.discard(broker_writer)
            broker_writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Until one side closes or is aborted, as :meth:`cut` does; then both."""
        with suppress(ConnectionError):
            while data := await source.read(CHUNK):
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
