"""A connection to the broker in a thread of its own, for callers that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from rankd.client.async_bus import AsyncBusChannel
from rankd.client.async_channel import carry_out
from rankd.client.error import Closed
from rankd.client.step import Plan
from rankd.client.target import Way
from rankd.wire.session import JobLog

T = TypeVar("T")


class BusThread:
    """Runs operations over a broker. Any thread may ask; a caller that is interrupted ends its operation."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rankd client", daemon=True)
        self._thread.start()
        self._channel = self._wait_for(self._made())

    async def _made(self) -> AsyncBusChannel:
        return AsyncBusChannel(self._way)

    def run(self, plan: Plan[T]) -> T:
        """The result of an operation.

        Raises:
            RankdError: as the operation says.
        """
        return self._wait_for(carry_out(plan, self._channel))

    def logs(self, wanted: JobLog) -> Generator[bytes, None, None]:
        """What a job writes, part by part.

        Raises:
            RankdError: it can't be read.
        """

        async def begin() -> AsyncGenerator[bytes, None]:
            return (await self._channel.output(wanted)).parts()

        async def following() -> bytes | None:
            return await anext(parts, None)

        parts = self._wait_for(begin())
        try:
            while (part := self._wait_for(following())) is not None:
                yield part
        finally:
            self._wait_for(parts.aclose())

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:  # not by this caller, who would have no result to wait for
            raise Closed from None
        except BaseException:
            future.cancel()
            raise

    async def _end(self) -> None:
        """Close the connection; operations of other threads end."""
        await self._channel.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        """Close the connection and end the thread."""
        try:
            self._wait_for(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
