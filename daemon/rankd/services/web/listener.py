"""The listening socket: uvicorn in this process's event loop, with limits that it does not have itself.

A connection that sends no whole request for a while is closed, and so is one too many.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rankd.core.errors import Refused

log = logging.getLogger("rankd.web")

MOST_CONNECTIONS = 1_000
"""Connections at a time; a tab of a browser has one or two. What comes above is closed at once."""
SILENT_S = 15.0
"""Seconds in which a new connection has to send a whole request."""
IDLE_S = 30
"""Seconds for which an idle connection stays open for a next request."""
LARGEST_HEAD = 32 * 2**10
BACKLOG = 256
STOP_S = 2


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and the files for TLS."""

    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None

    @property
    def scheme(self) -> str:
        """``http``, or ``https`` with a certificate."""
        return "http" if self.cert is None else "https"


class _Protocol(H11Protocol):
    """One connection."""

    _waiting: asyncio.TimerHandle | None = None
    """Closes the connection unless a whole request comes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection in, or close it."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            log.warning("%d connections are open; another one is closed", MOST_CONNECTIONS)
            transport.abort()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent."""
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        """Begin to wait for a whole request, if none is being answered. More bytes of it do not prolong the time."""
        if self._is_answering() and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        elif not self._is_answering() and self._waiting is None:
            self._waiting = self.loop.call_later(SILENT_S, self._close_if_silent)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_if_silent(self) -> None:
        self._waiting = None
        if not self._is_answering():
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)


def bind(address: Address) -> socket.socket:
    """A socket that listens there.

    Raises:
        Refused: ``bad_listen``.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"the page can't listen on {address.host} port {address.port}: {reason}; give a free port (--port)"
        raise Refused("bad_listen", message, "listen") from None
    listening.set_inheritable(False)
    return listening


def tls_context(address: Address) -> ssl.SSLContext | None:
    """The certificate, loaded; None without one.

    Raises:
        Refused: ``bad_certificate``.
    """
    if address.cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(address.cert, address.key)
    except (OSError, ssl.SSLError) as error:
        message = f"the certificate {address.cert} and its key can't be used: {error}"
        raise Refused("bad_certificate", message, "cert") from None
    return context


class Listener:
    """Serves an application on a socket until it is told to stop."""

    def __init__(self, app: ASGIApp, listening: socket.socket, address: Address) -> None:
        self._listening = listening
        found = tls_context(address)
        given: dict[str, Any] = {} if found is None else {"ssl_context_factory": lambda _config, _default: found}
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            **given,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self.ended = asyncio.Event()

    async def serve(self) -> None:
        """Serve until :meth:`stop`."""
        await self._server.startup(sockets=[self._listening])
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown(sockets=[self._listening])
            self.ended.set()
        await asyncio.Event().wait()  # until it is cancelled with the service's other loops

    def stop(self) -> None:
        """End :meth:`serve`."""
        self._server.should_exit = True
