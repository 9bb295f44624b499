"""A server in a test's own event loop that leaves no connection open when the test ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_server(serve: Serve, port: int = 0, **options: Any) -> AsyncIterator[int]:
    """Serves each connection on 127.0.0.1 with ``serve``; yields the port.

    At the end it stops serving and closes what is open. Else the garbage collector closes it, with a warning in
    whichever test it runs next.
    """
    serving = dict[asyncio.Task[None], asyncio.StreamWriter]()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving[task] = writer
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            del serving[task]

    server = await asyncio.start_server(one, "127.0.0.1", port, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = list(serving)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
