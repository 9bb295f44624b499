"""nats-py's client, with a ``flush`` that does what it says, and headers that can't end the connection.

nats-py's own ``flush`` writes its PING past the commands that still wait in the client's buffer. So its PONG may come
before the server knows of a subscription, and the first request after it is lost. When it runs out of time, it cancels
its future and leaves it in the list of pongs that are awaited: the late pong raises InvalidStateError in the loop that
reads the socket, which ends, and the connection is deaf until pings are missed.
"""

from __future__ import annotations

import asyncio
import logging

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.errors import ConnectionClosedError, FlushTimeoutError

log = logging.getLogger("rankd.bus")


class PatientClient(Client):
    """A client whose pongs answer all commands before them and are never cancelled, and that survives any headers."""

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        """The parsed headers; None if they can't be parsed.

        An exception here would end nats-py's loop that reads the socket, and the connection would be deaf.
        """
        try:
            parsed: dict[str, str] | None = await super()._process_headers(headers)
        except (ValueError, LookupError) as error:
            log.warning("bus: ignored the headers of a message, which can't be parsed: %s", error)
            return None
        return parsed

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """Send a PING behind every command that was given before it; ``future`` gets its PONG."""
        transport = self._transport
        if self._pending and transport is not None:  # as nats-py's flusher does, which may not have had its turn yet
            transport.writelines(self._pending)
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - nats-py's signature
        """A round trip to the server: every command before has come there. Does nothing while it reconnects.

        Raises:
            ConnectionClosedError: for good.
            FlushTimeoutError: no answer within ``timeout`` seconds. The answer may still come.
        """
        if self.is_closed:
            raise ConnectionClosedError
        if not self.is_connected:
            return
        pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._send_ping(pong)
                await asyncio.shield(pong)  # whoever gives up, is cancelled alone
        except TimeoutError:
            raise FlushTimeoutError from None
