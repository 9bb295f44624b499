"""The terminal or the pipes of an interactive process, opened by the child that becomes it.

Only the standard library is imported: the helper runs without rankd's dependencies.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios

TYPE_CHECKING = False  # as in the helper
if TYPE_CHECKING:
    from typing import Any

STREAMS = b"S"
"""What the child sends with the descriptors, so that the keeper can tell it from a failure."""


def open_streams(session: dict[str, Any], files: tuple[int, int, int], channel: int) -> tuple[int, int, int]:
    """Open a terminal or pipes; returns the descriptors of input, output and errors.

    The keeper gets the files of output and errors, then the other ends: that of the terminal; or those of output,
    errors and, if the process has input, input.
    """
    nothing, output, errors = files
    if session["pty"]:
        master, terminal = os.openpty()
        _set_size(terminal, session["rows"], session["columns"])
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        _send(channel, [output, master])
        return terminal, terminal, terminal
    (read_output, own_output), (read_errors, own_errors) = os.pipe(), os.pipe()
    own_input, others = nothing, [read_output, read_errors]
    if session["input"]:
        own_input, write_input = os.pipe()
        others.append(write_input)
    _send(channel, [output, errors, *others])
    return own_input, own_output, own_errors


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _send(channel: int, descriptors: list[int]) -> None:
    with socket.socket(fileno=os.dup(channel)) as keeper:
        socket.send_fds(keeper, [STREAMS], descriptors)
