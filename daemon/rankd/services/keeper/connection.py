"""Connecting to the keeper of a state directory, and reading its first message."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankd.core.errors import Unavailable
from rankd.services.keeper.message import SOCKET, Hello, read_tell

SILENT = "keeper_silent"
PATIENCE_S = 30.0
"""A keeper that sends nothing for this long is stopped, or hangs."""

_CREDENTIALS = struct.Struct("iII")


@contextmanager
def socket_path(state: Path) -> Iterator[str]:
    """A path of the socket that is never too long for a socket address."""
    descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def reach(state: Path) -> socket.socket | None:
    """A connection to the running keeper; None if there is no keeper. Never waits.

    Raises:
        Unavailable: ``keeper_silent``: too many connections wait for the keeper, so it accepts no further one.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        with socket_path(state) as path:
            connection.connect(path)
    except BlockingIOError:
        connection.close()
        raise silent(state) from None
    except OSError:
        connection.close()
        return None
    return connection


async def first_line(reader: asyncio.StreamReader, patience_s: float) -> bytes | None:
    """The keeper's first line; empty if the keeper has ended, None if it sends nothing."""
    try:
        async with asyncio.timeout(patience_s):
            return await reader.readline()
    except TimeoutError:
        return None
    except OSError:
        return b""


def hello_of(said: bytes) -> Hello:
    """The keeper's first message.

    Raises:
        Unavailable: ``keeper_silent``: the line is something else.
    """
    told = read_tell(said)
    if not isinstance(told, Hello):
        raise Unavailable(SILENT, "the process that holds this node's jobs sent something other than a greeting")
    return told


def pid_of(connection: socket.socket) -> int | None:
    """The process that listens at the other end; None if this process made the socket and a keeper will inherit it."""
    size = _CREDENTIALS.size
    pid = int(_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])
    return None if pid == os.getpid() else pid


def uid_of(connection: socket.socket) -> int:
    """The user of the process at the other end, by the kernel's word.

    Raises:
        OSError: the connection has ended.
    """
    return int(_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])


def silent(state: Path, pid: int | None = None) -> Unavailable:
    """The error for a keeper that does not answer."""
    which = "the process that holds this node's jobs" if pid is None else f"keeper {pid}, which holds this node's jobs,"
    return Unavailable(SILENT, f"{which} does not answer: it is stopped or hangs; see {state}/keeper.log")
