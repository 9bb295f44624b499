"""Reads files for an agent, with the rights of one user. A process of its own for each user.

An agent that is root follows no path of a user's with root's rights. This script is started isolated (``python -I -S
file_reader.py DESCRIPTOR UID GID GROUPS``) and with an empty environment, and becomes the user for good before it reads
a request. Without a UID, it stays the agent's user. A file system that never answers blocks only this process, and so
only the sessions with this user's jobs. It imports nothing later: the user may not be able to read Python's files.

On the socket DESCRIPTOR each request is answered before the next one is read. A request is an operation, a handle, an
offset and a number, with bytes behind it. An answer is an errno (0: done), a number, and bytes behind it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys

REQUEST = struct.Struct("<cIQII")
"""The operation, the handle, the offset, a number, and how many bytes follow."""
ANSWER = struct.Struct("<iQI")
"""The errno, a number, and how many bytes follow."""
TIME = struct.Struct("<d")

OPEN, READ, SIZE, TAIL, CLOSE = b"o", b"r", b"s", b"t", b"c"
"""Open the file whose path follows: its handle, and the time of its last change. Read: its size, and bytes. Its size.
The offset of its last lines. Close it."""
NOT_A_FILE = errno.ENODEV
"""The errno for something that is not a regular file, such as a pipe or a device."""
MOST_BYTES = 256 * 2**10
MOST_OPEN = 200
BLOCK = 64 * 2**10
MOST_TAIL_BYTES = 64 * 2**20
"""Lines are looked for in this much of a file at most."""


def opened(path: bytes) -> tuple[int, float]:
    """A descriptor of a regular file, and the time of its last change. Waits for no other end of a pipe.

    Raises:
        OSError: it can't be opened, or is something else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(NOT_A_FILE, "not a regular file")
    return descriptor, status.st_mtime


def tail(descriptor: int, lines: int) -> int:
    """The offset at which the last lines of a file begin; a last one without a line break is one, too."""
    end = os.fstat(descriptor).st_size
    least, position = max(0, end - MOST_TAIL_BYTES), end
    if not lines:
        return end
    left = lines + (end > 0 and os.pread(descriptor, 1, end - 1) == b"\n")
    while position > least:
        begin = max(least, position - BLOCK)
        block = os.pread(descriptor, position - begin, begin)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            left -= 1
            if not left:
                return begin + place + 1
        position = begin
    return least


class Reader:
    """The open files of one user."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def answer(self, operation: bytes, handle: int, offset: int, number: int, content: bytes) -> tuple[int, bytes]:
        """Carry a request out; returns a number and bytes.

        Raises:
            OSError: it can't be done.
        """
        if operation == OPEN:
            if len(self._open) >= MOST_OPEN:
                raise OSError(errno.EMFILE, "too many files")
            descriptor, changed_at = opened(content)
            self._open.add(descriptor)
            return descriptor, TIME.pack(changed_at)
        if handle not in self._open:
            raise OSError(errno.EBADF, "no such file")
        if operation == READ:
            data = os.pread(handle, min(number, MOST_BYTES), offset)
            return os.fstat(handle).st_size, data
        if operation == TAIL:
            return tail(handle, number), b""
        if operation == CLOSE:
            self._open.discard(handle)
            os.close(handle)
            return 0, b""
        return os.fstat(handle).st_size, b""


def serve(descriptor: int) -> None:
    """Answer until the agent has gone."""
    reader, channel = Reader(), os.fdopen(descriptor, "r+b", buffering=0)
    while head := exactly(channel, REQUEST.size):
        operation, handle, offset, number, length = REQUEST.unpack(head)
        content = exactly(channel, length)
        try:
            found, data = reader.answer(operation, handle, offset, number, content)
            status = 0
        except (OSError, OverflowError, ValueError) as error:
            status, found, data = getattr(error, "errno", None) or errno.EINVAL, 0, b""
        rest = memoryview(ANSWER.pack(status, found, len(data)) + data)
        while rest:
            rest = rest[channel.write(rest) or 0 :]


def exactly(channel: object, length: int) -> bytes:
    """This many bytes; fewer at the end."""
    parts = []
    while length:
        part = channel.read(length)  # type: ignore[attr-defined]  # a raw file
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def become(uid: str, gid: str, groups: str) -> None:
    """Drop the agent's rights. ``groups``: their numbers, with commas."""
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setresgid(int(gid), int(gid), int(gid))
    os.setresuid(int(uid), int(uid), int(uid))


if __name__ == "__main__":
    try:
        if len(sys.argv) > 2:
            become(*sys.argv[2:])
        serve(int(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        sys.exit(0)
