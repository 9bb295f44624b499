"""``/metrics`` of a service: a small HTTP server in the service's event loop, which answers nothing else.

It holds a bounded number of connections, each for one short request. Where it listens on loopback, it answers only
under names of this machine: another site's page can't read it through a browser here.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from rankd.core.errors import Refused
from rankd.services.runtime.metric.address import MetricsAddress, is_own_name
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.exposition import Text, check_installed, rendered
from rankd.services.runtime.metric.scrape import Shared

log = logging.getLogger("rankd.metrics")

PATH = "/metrics"
AGE_S = 1.0
"""All scrapes within this time get the same figures."""
MOST_CONNECTIONS = 32
LARGEST_HEAD = 8 * 2**10
PATIENCE_S = 10.0
"""Seconds for a whole request and its answer."""

_REQUEST = re.compile(rb"(GET|HEAD) (/[!-~]*) HTTP/1\.[01]\r\n")
_HEADER = re.compile(rb"\r\n(accept|host):[ \t]*([^\r\n]*)", re.IGNORECASE)


@asynccontextmanager
async def serving(address: MetricsAddress, exported: Exported) -> AsyncIterator[None]:
    """Serve while the block runs.

    Raises:
        Refused: ``not_installed``, ``bad_listen``.
    """
    check_installed()
    serving = _Serving(address, exported)
    try:
        server = await asyncio.start_server(serving.answer, address.host, address.port, limit=LARGEST_HEAD)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"metrics can't be served on {address.host} port {address.port}: {reason}"
        raise Refused("bad_listen", f"{message}; give a free port (--metrics)", "metrics") from None
    host, port = server.sockets[0].getsockname()[:2]
    log.info("metrics: http://%s:%d%s", f"[{host}]" if ":" in host else host, port, PATH)
    try:
        yield
    finally:
        server.close()


class _Serving:
    """Answers connections."""

    def __init__(self, address: MetricsAddress, exported: Exported) -> None:
        self._address = address
        self._shared = Shared(exported.all, AGE_S)
        self._open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        if self._open >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answered(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._open -= 1
            writer.close()

    async def _answered(self, head: bytes) -> bytes:
        found = _REQUEST.match(head)
        if found is None:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here\n")
        headers = {name.lower(): value.decode("latin-1").strip() for name, value in _HEADER.findall(head)}
        if self._address.is_loopback and not is_own_name(headers.get(b"host", "")):
            return _response(HTTPStatus.MISDIRECTED_REQUEST, "these metrics are for this machine: ask localhost\n")
        if found[2].partition(b"?")[0] != PATH.encode():
            return _response(HTTPStatus.NOT_FOUND, f"there is only {PATH}\n")
        try:
            text = rendered(await self._shared.get(), headers.get(b"accept", ""))
        except Exception:  # a bug in the figures must not end the service
            log.exception("the metrics can't be made")
            return _response(HTTPStatus.INTERNAL_SERVER_ERROR, "the metrics can't be made; the log says why\n")
        return _whole(HTTPStatus.OK, text, has_body=found[1] == b"GET")


def _response(status: HTTPStatus, text: str) -> bytes:
    return _whole(status, Text(text.encode(), "text/plain; charset=utf-8"))


def _whole(status: HTTPStatus, text: Text, *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {text.content_type}\r\n"
        f"Content-Length: {len(text.body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (text.body if has_body else b"")
