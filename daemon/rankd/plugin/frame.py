"""Frames on the socket between a service and a worker: a header, a payload, and possibly a file descriptor."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import NamedTuple

from rankd.core.errors import Unavailable

_PREFIX = struct.Struct("<IQ")
_LARGEST_HEADER = 2**30


class Frame(NamedTuple):
    """A received frame. ``descriptor`` belongs to the receiver."""

    header: bytes
    payload: bytearray
    descriptor: int | None


def send(
    connection: socket.socket, header: bytes, payload: bytes | memoryview = b"", descriptor: int | None = None
) -> None:
    """Send one frame, within the socket's timeout."""
    prefix = _PREFIX.pack(len(header), len(payload))
    if descriptor is None:
        connection.sendall(prefix + header)
    else:
        sent = socket.send_fds(connection, [prefix], [descriptor])
        connection.sendall(prefix[sent:] + header)
    if len(payload):
        connection.sendall(payload)


def receive(connection: socket.socket, most: int, until: float | None = None) -> Frame:
    """The next frame, with a payload of at most ``most`` bytes.

    Args:
        connection: a descriptor, if any, comes with the first byte of a frame.
        most: a larger payload is refused.
        until: on the monotonic clock; None waits without limit.

    Raises:
        Unavailable: the other side has ended, or has not sent a whole frame in time.
    """
    connection.settimeout(_left(until))
    try:
        first, descriptors, _, _ = socket.recv_fds(connection, _PREFIX.size, 1)
        prefix = first + _rest(connection, _PREFIX.size - len(first), until) if first else b""
        if not prefix:
            raise _gone()
        n_header, n_payload = _PREFIX.unpack(prefix)
        if n_header > _LARGEST_HEADER or n_payload > most:
            raise Unavailable("plugin_gone", f"an answer can't have {n_header} and {n_payload} bytes")
        header = bytes(_rest(connection, n_header, until))
        return Frame(header, _rest(connection, n_payload, until), descriptors[0] if descriptors else None)
    except TimeoutError:
        raise Unavailable("plugin_gone", "stopped in the middle of an answer") from None
    except OSError as error:
        raise Unavailable("plugin_gone", os.strerror(error.errno or 0)) from error


def _rest(connection: socket.socket, size: int, until: float | None) -> bytearray:
    content = bytearray(size)
    view, have = memoryview(content), 0
    while have < size:
        connection.settimeout(_left(until))
        got = connection.recv_into(view[have:])
        if not got:
            raise _gone()
        have += got
    return content


def _gone() -> Unavailable:
    return Unavailable("plugin_gone", "the other side has ended")


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0.001)
