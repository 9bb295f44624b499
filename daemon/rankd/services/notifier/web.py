"""Sends a notification by HTTPS: one POST, of which only the status of the answer counts.

It is written by hand, because it needs so little: HTTP/1.1 with a body of known length, a connection for each message,
no redirects, no proxies, no cookies, and nothing of the answer but its first lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rankd import __version__
from rankd.core.notification.target import WEB_PORT, Target
from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.connection import Stream

MOST_LINES = 100
GONE = 410
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r?\n)")


async def post(stream: Stream, target: Target, body: bytes, headers: Mapping[str, str]) -> None:
    """Send the body, and wait for the answer. The caller limits the time, and closes the connection.

    Raises:
        AttemptFailed: the answer is not a success.
        OSError, EOFError, ValueError: the connection broke, or the answer is not HTTP.
    """
    stream.writer.write(request(target, body, headers))
    await stream.writer.drain()
    status = await _status(stream)
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise AttemptFailed(f"{target.host} answered with a redirect ({status}), which is not followed")
    raise AttemptFailed(f"{target.host} answered with status {status}", final=status == GONE)


def request(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The bytes of the request. Host, path and query come from a user; :class:`Target` has checked their characters."""
    host = target.host if target.port == WEB_PORT else f"{target.host}:{target.port}"
    fields = {
        "Host": host,
        "User-Agent": f"rankd/{__version__}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Accept": "*/*",
        "Connection": "close",
        **headers,
    }
    lines = [f"POST {target.rest} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


async def _status(stream: Stream) -> int:
    """The status of the answer, without provisional ones."""
    while True:
        line = await stream.reader.readline()
        found = _STATUS.match(line)
        if found is None:
            raise AttemptFailed("the answer is not HTTP" if line else "the connection was closed without an answer")
        if int(found[1]) >= 200:
            return int(found[1])
        await _skip_fields(stream)


async def _skip_fields(stream: Stream) -> None:
    for _ in range(MOST_LINES):
        if not (await stream.reader.readline()).strip():
            return
    raise AttemptFailed("the answer has too many lines")
