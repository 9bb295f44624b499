"""nats-py's client, with a correct ``flush``, and with headers and subjects that can't end the connection.

nats-py's own ``flush`` sends its PING before the commands that still wait in the client's buffer. So its PONG may
arrive before the server knows a subscription, and the first request after it is lost. When it times out, it cancels
its future but leaves it in the list of awaited pongs. The late pong then raises InvalidStateError in the loop that
reads the socket. That loop ends, and the connection is deaf until pings are missed.

A sender chooses the subject and the reply subject, and the server accepts any bytes in them but blanks and line ends.
nats-py also takes a form feed for a blank, and raises an error for bytes that are not UTF-8. Both made it deaf.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.transport import TcpTransport
from nats.errors import ConnectionClosedError, Error, FlushTimeoutError
from nats.protocol import parser

log = logging.getLogger("rankd.bus")


class NotEncryptedError(Error):
    """The broker does not encrypt a connection that has to be encrypted."""


_TO = rb"[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?"
"""Subject, subscription and reply subject, divided as the server divides them."""
parser.MSG_RE = re.compile(rb"\AMSG" + _TO + rb"(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG" + _TO + rb"(\d+)[ \t]+(\d+)\r\n")

BY_BROKER = b"NATS/1.0\r\nNats-Request-Info:"
"""How the headers of a request from another account begin, if its sender gave none."""

ENDS_CONNECTION = ("authentication expired", "authentication revoked", "maximum connections", "maximum account")
"""Reasons for which the server ends a connection that may come again: with newer credentials, or when there is room."""


class PatientClient(Client):
    """A client whose pongs follow all earlier commands and are never cancelled, and that survives any headers.

    ``signs``: it answers the server's challenge with ``signature_cb``, which nats-py does only if it knows of
    credentials in a file. ``finds_others``: it also connects to servers that a server names. ``context`` is called for
    each handshake. ``encrypts``: whether a connection in plain text is refused; nats-py encrypts only if the server
    says so, whatever the URL says. ``public_key``: the key that signs, for servers that have keys in their
    configuration file; nats-py names it only where there is no token.
    """

    def __init__(
        self,
        *,
        signs: bool = False,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        encrypts: Callable[[], bool] = lambda: False,
        public_key: Callable[[], str] | None = None,
        finds_others: bool = True,
    ) -> None:
        super().__init__()
        self._finds_others = finds_others
        self._auth_configured = signs
        self._context = context
        self._encrypts = encrypts
        self._public_key = public_key

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """For the handshake of one connection; nats-py would keep the certificates that it began with."""
        return self._context()

    @property
    def is_encrypted(self) -> bool:
        """Whether the present connection is encrypted; the server's own word does not count."""
        writer = self._writer()
        return writer is not None and writer.get_extra_info("sslcontext") is not None

    @property
    def host(self) -> str:
        """The host of the newest attempt to connect; empty before the first."""
        return "" if self._current_server is None else self._current_server.uri.hostname or ""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Learn what a server says of itself, and of others only if they are wanted."""
        if not self._finds_others:
            info = {name: value for name, value in info.items() if name != "connect_urls"}
        await super()._process_info(info, initial_connection)

    def _writer(self) -> asyncio.StreamWriter | None:
        transport = self._transport
        return transport._io_writer if isinstance(transport, TcpTransport) else None  # noqa: SLF001 - no public way

    def _connect_command(self) -> bytes:
        """The first command, which holds credentials.

        Raises:
            NotEncryptedError: nothing is sent, since others could read it.
        """
        if self._encrypts() and not self.is_encrypted:
            raise NotEncryptedError("nats: the server does not encrypt")
        if self.is_encrypted and (writer := self._writer()) is not None:
            # as asyncio's own start_tls does; without it, asyncio logs a warning at the end of each connection
            writer._protocol._over_ssl = True  # type: ignore[attr-defined]  # noqa: SLF001
        command: bytes = super()._connect_command()
        return command if self._public_key is None else _with_key(command, self._public_key())

    async def _select_next_server(self) -> None:
        """Connect to a server; the socket of a refused attempt is closed first, which nats-py leaves open."""
        self._drop_socket()
        await super()._select_next_server()

    async def _process_connect_init(self) -> None:
        """Introduce this client to the server. nats-py's loop that reconnects ends at any error but those of sockets.

        Raises:
            ConnectionResetError: the socket was dropped meanwhile.
        """
        try:
            await super()._process_connect_init()
        except (AssertionError, AttributeError, RuntimeError) as error:
            if self._transport is not None and not isinstance(error, RuntimeError):  # RuntimeError: uvloop, as in flush
                raise
            raise ConnectionResetError("the connection was lost while it was made") from error

    async def abandon(self) -> None:
        """Close for good, after an attempt to connect that was cut short: nats-py leaves its socket open."""
        self._drop_socket()
        await self.close()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """Close; after a failed attempt without waiting: nats-py would wait for ever after a failed handshake."""
        if status == Client.DISCONNECTED:
            self._drop_socket()
        await super()._close(status, do_cbs)

    def _drop_socket(self) -> None:
        if self._transport is not None:
            with suppress(OSError, RuntimeError):
                self._transport.close()  # type: ignore[no-untyped-call]
                beneath = getattr(self._transport, "_bare_io_writer", None)
                if beneath is not None:  # TLS would wait for the other side's goodbye
                    beneath.close()
        self._transport = None

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after an error that ends this connection only; nats-py would close the client for good."""
        if any(reason in err_msg.lower() for reason in ENDS_CONNECTION):
            await self._process_op_err(Error(f"nats: {err_msg}"))
            return
        await super()._process_err(err_msg)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Pass a message on to its subscription; one whose subjects are not UTF-8 is dropped.

        An exception here would end nats-py's loop that reads the socket, as in :meth:`_process_headers`.
        """
        try:
            subject.decode()
            reply.decode()
        except UnicodeDecodeError as error:
            log.warning("bus: dropped a message, since its subject or reply subject is not UTF-8: %s", error)
            return
        await super()._process_msg(sid, subject, reply, data, headers)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        """The parsed headers; None if they can't be parsed.

        An exception here would end nats-py's loop that reads the socket, and the connection would be deaf. The broker
        adds a header to each request from another account, which nothing here reads.
        """
        if not headers or _is_only_of_broker(headers):
            return None
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
            ConnectionResetError: the socket has just closed.
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
        except RuntimeError as error:  # what uvloop says of a socket that closed before this client has noticed
            raise ConnectionResetError(str(error)) from None


def _is_only_of_broker(headers: bytes) -> bool:
    """Whether the only header is what the broker says about who asks."""
    return headers.startswith(BY_BROKER) and headers.find(b"\r\n", len(BY_BROKER)) == len(headers) - 4


def _with_key(command: bytes, public: str) -> bytes:
    """The first command, which names the key, too. A server that trusts signed tokens ignores it."""
    word, _, text = command.partition(b" ")
    options = {**msgspec.json.decode(text, type=dict[str, object]), "nkey": public}
    return word + b" " + msgspec.json.encode(options) + b"\r\n"
