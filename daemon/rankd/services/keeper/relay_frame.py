"""Frames between an agent and the relay of a session, on a Unix socket: a kind, an offset, and bytes. Pure.

A relay is a small process that carries the input and output of one interactive process (:mod:`.relay`). Offsets count
the bytes of a stream from its beginning. So a connection that breaks can be replaced, and no byte is lost or repeated.
Only the standard library is imported: the relay runs without rankd's dependencies.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # as in the helper
if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = struct.Struct("<cIQ")
MOST_BYTES = 256 * 1024
"""The largest payload of a frame."""

OUTPUT, ERRORS, INPUT_TAKEN, HELLO, END = b"o", b"e", b"i", b"h", b"x"
"""From the relay: bytes of a stream; how far the input was written to the process; the streams' places; the end."""
INPUT, INPUT_ENDS, SIZE, OUTPUT_READ, ERRORS_READ = b"i", b"z", b"w", b"a", b"b"
RESUME, DETACHED, DONE = b"r", b"d", b"q"
"""From the agent: input; its end; rows and columns; how far a stream was read; (again) send from these offsets on, to
the session of this name, whose input counts from 0; nobody reads any more; the session is over."""

SIZES = struct.Struct("<HH")
OFFSETS = struct.Struct("<QQ")
PLACES = struct.Struct("<QQQQ?")
"""Of a hello: the first and the next byte of output and of errors, and whether it is a terminal. It comes first, and
again before what is sent after each ``RESUME``; relays of older versions do not repeat it."""
ENDED = struct.Struct("<iQQ")
"""The exit status, negative for a signal, and the whole length of output and of errors."""
LAST_PART = 2**64 - 1
"""Instead of an offset: from the oldest byte that is replayed."""


class BadFrame(ValueError):
    """The other side does not keep to the protocol."""


def frame(kind: bytes, offset: int = 0, payload: bytes = b"") -> bytes:
    """A frame as it is sent.

    >>> Frames().feed(frame(b"o", 7, b"hello"))
    [(b'o', 7, b'hello')]
    """
    return HEAD.pack(kind, len(payload), offset) + payload


class Frames:
    """Reads frames from parts of a stream of bytes."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, part: bytes) -> list[tuple[bytes, int, bytes]]:
        """The frames that are complete with this part.

        Raises:
            BadFrame: a payload is too large.
        """
        self._left += part
        return list(self._complete())

    def _complete(self) -> Iterator[tuple[bytes, int, bytes]]:
        while len(self._left) >= HEAD.size:
            kind, length, offset = HEAD.unpack_from(self._left)
            if length > MOST_BYTES:
                raise BadFrame(f"a frame of {length} bytes")
            if len(self._left) < HEAD.size + length:
                return
            payload = bytes(self._left[HEAD.size : HEAD.size + length])
            del self._left[: HEAD.size + length]
            yield kind, offset, payload
