"""nats-py's client, with a correct ``flush``, and with headers that can't end the connection.

nats-py's own ``flush`` sends its PING before the commands that still wait in the client's buffer. So its PONG may
arrive before the server knows a subscription, and the first request after it is lost. When it times out, it cancels
its future but leaves it in the list of awaited pongs. The late pong then raises InvalidStateError in the loop that
reads the socket. That loop ends, and the connection is deaf until pings are missed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.errors import ConnectionClosedError, Error, FlushTimeoutError

log = logging.getLogger("rankd.bus")

ENDS_CONNECTION = ("authentication expired", "authentication revoked", "maximum connections", "maximum account")
"""Reasons for which the server ends a connection that may come again: with newer credentials, or when there is room."""


class PatientClient(Client):
    """A client whose pongs follow all earlier commands and are never cancelled, and that survives any headers.

    ``signs``: it answers the server's challenge with ``signature_cb``, which nats-py does only if it knows of
    credentials in a file.
    """

    def __init__(self, *, signs: bool = False) -> None:
        super().__init__()
        self._auth_configured = signs

    async def _select_next_server(self) -> None:
        """Connect to a server; the socket of a refused attempt is closed first, which nats-py leaves open."""
        if self._transport is not None:
            with suppress(OSError, RuntimeError):
                self._transport.close()  # type: ignore[no-untyped-call]
        await super()._select_next_server()

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after an error that ends this connection only; nats-py would close the client for good."""
        if any(reason in err_msg.lower() for reason in ENDS_CONNECTION):
            await self._process_op_err(Error(f"nats: {err_msg}"))
            return
        await super()._process_err(err_msg)

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
        """Send a PING after every earlier command; ``future`` gets its PONG."""
        transport = self._transport
        if self._pending and transport is not None:  # as nats-py's flusher does, which may not have run yet
            transport.writelines(self._pending)
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - nats-py's signature
        """Wait until the server has received every earlier command. Does nothing while the client reconnects.

        Raises:
            ConnectionClosedError: the connection is closed for good.
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
                await asyncio.shield(pong)  # a caller that gives up is cancelled without cancelling the pong
        except TimeoutError:
            raise FlushTimeoutError from None
