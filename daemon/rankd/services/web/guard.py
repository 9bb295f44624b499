"""What every request passes first: the name in ``Host``, the size of its body, and the headers of each answer.

The policy lets the browser load nothing but our own files, run no script and use no style that is part of a page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankd.core.errors import Refused
from rankd.services.web.visitor import check_host

log = logging.getLogger("rankd.web")

LARGEST_BODY = 64 * 2**10
"""Bytes of a form: a job to try in What if is the largest."""
BODY_S = 15.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
# without any referrer, browsers would send "Origin: null" with our own forms
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """ASGI middleware. ``hosts``: the names, with ports, under which the page answers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found[name] = value
                found.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            check_host(headers.get("host"), self._hosts)
            body = await _body(scope, receive, headers)
        except Refused as error:
            await PlainTextResponse(error.message + "\n", error.status)(scope, receive, guarded)
            return
        await self._app(scope, _once(body, receive), guarded)


async def _body(scope: Scope, receive: Receive, headers: Headers) -> bytes:
    """The whole body of a change; of a request that only looks, nothing.

    Raises:
        Refused: ``too_large``, ``too_slow``, ``bad_method``.
    """
    if scope["method"] in ("GET", "HEAD"):
        return b""
    if scope["method"] != "POST":
        raise Refused("bad_method", "this page answers GET and POST", status=405)
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdecimal()) or len(size) > len(str(LARGEST_BODY)) or int(size) > LARGEST_BODY:
        raise Refused("too_large", f"a form has at most {LARGEST_BODY} bytes here", status=413)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise Refused("too_large", f"a form has at most {LARGEST_BODY} bytes here", status=413)
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Refused("too_slow", f"the form did not arrive within {BODY_S:g} s; send it again", status=408) from None


def _once(body: bytes, receive: Receive) -> Receive:
    """The body as one message; after it, whatever the connection says, which is that it has ended."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
