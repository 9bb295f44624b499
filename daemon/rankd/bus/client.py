"""nats-py's client, with a ``flush`` that can run out of time without harm, and headers that can't end the connection.

nats-py's own cancels its future then, and leaves it in the list of pongs that are awaited: the late pong raises
InvalidStateError in the loop that reads the socket, which ends, and the connection is deaf until pings are missed.
"""

from __future__ import annotations

import asyncio
import logging

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.errors import ConnectionClosedError, FlushTimeoutError

log = logging.getLogger("rankd.bus")


class PatientClient(Client):
    """A client whose awaited pongs are never cancelled, and that survives headers it cannot parse."""

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

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - nats-py's signature
        """A round trip to the server: what was written before has come there. Nothing while it reconnects.

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
