"""The client's side of ``login.sock``. Imports no NATS."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from rankd.core.errors import Refused, Unavailable
from rankd.wire.codec import encode
from rankd.wire.login import Login, LoginRefused, LoginRequest

TIMEOUT_S = 6.0
AGAIN_S = 0.02
MOST_BYTES = 64 * 2**10


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
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(TIMEOUT_S)
            with short_path(path) as short:
                _connect(connection, short)
            connection.sendall(encode(LoginRequest()) + b"\n")
            line = _line(connection)
    except BlockingIOError:
        message = f"too many processes log in at {path} at this moment; try again in a second"
        raise Unavailable("busy", message) from None
    except OSError as error:
        message = f"nobody answers at {path} ({error.strerror or error}); is `rankd up` running?"
        raise Unavailable("no_gateway", message) from None
    try:
        answer = msgspec.json.decode(line)
        if isinstance(answer, dict) and "creds" in answer:
            return msgspec.convert(answer, Login)
        refused = msgspec.convert(answer, LoginRefused)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unavailable("no_gateway", f"what answers at {path} is not rankd's gateway: {error}") from None
    raise Refused(refused.code, refused.message, status=403)


def _connect(connection: socket.socket, path: str) -> None:
    """Connect; again while the gateway's queue is full, since the kernel does not wait for room in it.

    Raises:
        OSError: nobody listens there, or the queue was full for :data:`TIMEOUT_S`.
    """
    until = time.monotonic() + TIMEOUT_S
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


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < MOST_BYTES:
        part = connection.recv(MOST_BYTES)
        if not part:
            break
        received += part
    return received
