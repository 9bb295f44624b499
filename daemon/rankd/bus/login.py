"""The client's side of ``login.sock``: requests, and credentials, as the user who runs this process.

Imports neither NATS nor asyncio, so that a command that asks here starts fast.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.codec import encode
from rankd.wire.login import AnswerLine, Login, LoginName, LoginRefused, LoginRequest

T = TypeVar("T")

TIMEOUT_S = 6.0
AGAIN_S = 0.02
MOST_LINE_BYTES = 64 * 2**10
PART_BYTES = 2**20


class Answer(NamedTuple):
    """The answer to a request; ``status`` of an error, as on the bus."""

    payload: bytes
    status: str | None


@lru_cache(maxsize=1)
def log_in(path: Path) -> Login:
    """Credentials of the user who runs this process; asked for once.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    return log_in_again(path)


def log_in_again(path: Path) -> Login:
    """Ask for credentials of the user who runs this process.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    return _converted(path, _exchange(path, LoginRequest())[0], Login)


@lru_cache(maxsize=1)
def name_at(path: Path) -> LoginName:
    """Under which name the user who runs this process asks there; asked for once.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    return _converted(path, _exchange(path, LoginRequest(want="name"))[0], LoginName)


def ask_at(path: Path, verb: str, payload: bytes, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> Answer:
    """The answer to a request of the user who runs this process. ``key``: a repeated one has the same outcome.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there; ``no_answer``: not in time; the gateway's reason.
    """
    asked = LoginRequest(want="answer", verb=verb, size=len(payload), key=key)
    line, rest = _exchange(path, asked, payload, timeout_s)
    found = _converted(path, line, AnswerLine)
    if len(rest) != found.size:
        raise _not_rankds(path, f"its answer ends after {len(rest)} of {found.size} bytes")
    return Answer(rest, found.status)


def _converted(path: Path, line: bytes, kind: type[T]) -> T:
    """The line as this kind of answer.

    Raises:
        Refused, Unavailable: it is a refusal, or nothing of rankd's.
    """
    try:
        answer = msgspec.json.decode(line)
        if not (isinstance(answer, dict) and "code" in answer):
            return msgspec.convert(answer, kind)
        refused = msgspec.convert(answer, LoginRefused)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _not_rankds(path, str(error)) from None
    refusal: type[RankdError] = Unavailable if refused.status in (429, 503) else Refused
    raise refusal(refused.code, refused.message, refused.field, status=refused.status)


def _not_rankds(path: Path, why: str) -> Unavailable:
    return Unavailable("no_gateway", f"what answers at {path} is not rankd's gateway: {why}")


def _exchange(
    path: Path, asked: LoginRequest, payload: bytes = b"", timeout_s: float = TIMEOUT_S
) -> tuple[bytes, bytes]:
    """Send a line and the bytes behind it; returns the line of the answer and the bytes behind that."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(timeout_s)
            with short_path(path) as short:
                _connect(connection, short, timeout_s)
            with suppress(BrokenPipeError, ConnectionResetError):  # it has refused the first line, and says why
                connection.sendall(encode(asked) + b"\n" + payload)
            return _received(connection)
    except BlockingIOError:
        message = f"too many processes ask at {path} at this moment; try again in a second"
        raise Unavailable("busy", message) from None
    except TimeoutError:
        message = f"no answer to '{asked.verb or asked.want}' at {path} within {timeout_s:.3g} s; is rankd running?"
        raise Unavailable("no_answer", message) from None
    except OSError as error:
        message = f"nobody answers at {path} ({error.strerror or error}); is `rankd up` running?"
        raise Unavailable("no_gateway", message) from None


def _connect(connection: socket.socket, path: str, timeout_s: float) -> None:
    """Connect; again while the gateway's queue is full, since the kernel does not wait for room in it.

    Raises:
        OSError: nobody listens there, or the queue was full for ``timeout_s``.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.connect(path)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(AGAIN_S)
        else:
            return


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """The path of a socket through an open directory: the kernel takes only 107 bytes, and directories are longer.

    Raises:
        OSError: there is no such directory.
    """
    directory = os.open(path.absolute().parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _received(connection: socket.socket) -> tuple[bytes, bytes]:
    """What comes until the other side closes: the first line, and the bytes behind it.

    A gateway that refuses a request before it has read all of it resets the connection after its answer.
    """
    parts, has_line = list[bytes](), False
    while part := _part(connection, has_line=has_line):
        parts.append(part)
        has_line = has_line or b"\n" in part
        if not has_line and sum(map(len, parts)) > MOST_LINE_BYTES:
            break
    line, _, rest = b"".join(parts).partition(b"\n")
    return line, rest


def _part(connection: socket.socket, *, has_line: bool) -> bytes:
    try:
        return connection.recv(PART_BYTES)
    except ConnectionResetError:
        if not has_line:
            raise
        return b""
