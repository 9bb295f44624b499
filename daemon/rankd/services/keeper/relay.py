"""The relay: a process that carries the input and output of one interactive process of a job.

Its keeper forks it, by the helper, for each interactive job, shell and step. It has the rights of the job's user, and
so harms only that user whatever it is given. It writes the output to the job's files, keeps the newest part in memory,
and serves one agent at a time on a Unix socket (:mod:`.relay_frame`). Another agent may take over at any moment: all
offsets are the relay's. If nobody confirms the output, the relay stops reading it after :data:`.ring.WINDOW_BYTES`, so
that the process waits; if nobody is to read it, it goes on to the files.

The keeper's end of the control socket carries the exit status to the relay; ``D`` says that all output of the ended
process is in its files. The relay ends with its keeper. Only the standard library is imported.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import termios
import time

from rankd.services.keeper import relay_frame as kinds
from rankd.services.keeper.relay_frame import BadFrame, Frames, frame
from rankd.services.keeper.ring import Ring

TYPE_CHECKING = False  # as in the helper
if TYPE_CHECKING:
    from typing import Any

STATUS = struct.Struct("<i")
DRAINED = b"D"
PART = 64 * 1024
QUEUED_BYTES = 256 * 1024
"""Bytes that wait for the agent's socket; further output stays in the ring."""
INPUT_WINDOW_BYTES = 256 * 1024
"""Input that the process has not read. A sender that goes beyond is disconnected."""
MOST_LEFT_BYTES = 4 * 2**20
"""No pipe and no terminal holds more."""
MOST_UNWRITTEN_BYTES = 2**20
"""Output that waits for room on the disk of its file. What is more is left out of the file."""
FULL = (errno.ENOSPC, errno.EDQUOT)
AGAIN_S = 0.5
LINGER_S = 60.0
"""How long the end of the output waits for an agent that has gone."""
MOST_LINGER_S = 3_600.0
_PEER = struct.Struct("iII")


class Stream:
    """One stream of output: where it is read, the file that gets it, and how far it was sent."""

    def __init__(self, kind: bytes, source: int, file: int) -> None:
        self.kind = kind
        self.source = source
        self.file = file
        self.ring = Ring()
        self.sent = 0
        self.unwritten = b""
        self.missing = 0
        """How many bytes were left out of the file since it was last written to."""

    def take(self) -> int:
        """Read once; returns the number of bytes. At the end of the stream, ``source`` becomes -1."""
        try:
            part = os.read(self.source, PART)
        except BlockingIOError:
            return 0
        except OSError as error:  # EIO: no process has the terminal open
            if error.errno != errno.EIO:
                raise
            part = b""
        if not part:
            self.source = -1
            return 0
        self.ring.add(part)
        self.unwritten += part
        self.write()
        return len(part)

    def drain(self) -> None:
        """Take what the ended process has left, but not what its children may go on writing."""
        most = MOST_LEFT_BYTES
        while self.source >= 0 and most > 0 and (taken := self.take()):
            most -= taken
        self.source = -1

    def write(self) -> None:
        """Write to the file. On a full disk the rest waits, up to a limit: the process and its reader do not.

        A line in the file says how many bytes are missing there. A file that can't be written gets no more.
        """
        try:
            if self.missing and self.file >= 0:
                note = b"\n[rankd: %d bytes are missing here: the disk was full]\n" % self.missing
                self.unwritten = note[os.write(self.file, note) :] + self.unwritten
                self.missing = 0
            while self.unwritten and self.file >= 0:
                self.unwritten = self.unwritten[os.write(self.file, self.unwritten) :]
        except OSError as error:
            if error.errno not in FULL:
                self.file = -1
            elif len(self.unwritten) > MOST_UNWRITTEN_BYTES:
                self.missing += len(self.unwritten)
                self.unwritten = b""
        if self.file < 0:
            self.unwritten, self.missing = b"", 0


class Relay:
    """The state of a relay. :meth:`run` serves until the session is over."""

    def __init__(
        self, control: socket.socket, listening: socket.socket, plan: dict[str, Any], files: list[int]
    ) -> None:
        self._control = control
        self._listening = listening
        self._is_terminal = bool(plan["pty"])
        self._agent_uid = int(plan["agent_uid"])
        self._input, self._streams = _streams_of(plan, files)
        self._pending = bytearray()
        self._taken = self._taken_before = 0
        self._session = b""
        self._input_ends = False
        self._agent: socket.socket | None = None
        self._frames = Frames()
        self._queued = bytearray()
        self._sends = False
        self._status: int | None = None
        self._told_end = False
        self._is_over = False
        self._ended_s = self._left_s = time.monotonic()

    def run(self) -> None:
        """Serve until the session is over, or the keeper has ended."""
        while not self._is_over:
            poll, actions = self._interests()
            waits = any(stream.unwritten or stream.missing for stream in self._streams) or self._status is not None
            for descriptor, events in poll.poll(AGAIN_S * 1000 if waits else None):
                if action := actions.get(descriptor):
                    action(events)
            for stream in self._streams:
                if stream.unwritten or stream.missing:
                    stream.write()
            self._send_output()
            self._look_at_end()

    def _interests(self) -> tuple[select.poll, dict[int, Any]]:
        """What to wait for. A descriptor that is not wanted now is left out: it would report its end for ever."""
        wanted: dict[int, int] = {self._control.fileno(): select.POLLIN, self._listening.fileno(): select.POLLIN}
        actions: dict[int, Any] = {
            self._control.fileno(): self._on_control,
            self._listening.fileno(): self._on_connection,
        }
        if self._agent is not None:
            wanted[self._agent.fileno()] = select.POLLIN | (select.POLLOUT if self._queued else 0)
            actions[self._agent.fileno()] = self._on_agent
        for stream in self._streams:
            if stream.source >= 0 and stream.ring.room:
                wanted[stream.source] = select.POLLIN
        if self._input >= 0 and self._pending:
            wanted[self._input] = wanted.get(self._input, 0) | select.POLLOUT
        for descriptor in wanted:
            actions.setdefault(descriptor, self._mover(descriptor))
        poll = select.poll()
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        return poll, actions

    def _mover(self, descriptor: int) -> Any:  # noqa: ANN401 - a function of the events; Callable is not imported here
        def move(events: int) -> None:
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                for stream in self._streams:
                    if stream.source == descriptor:
                        stream.take()
            if descriptor == self._input and self._pending and events & (select.POLLOUT | select.POLLERR):
                self._write_input()

        return move

    def _on_control(self, _events: int) -> None:
        message = self._control.recv(STATUS.size)
        if len(message) < STATUS.size:
            self._is_over = True
            return
        self._status = STATUS.unpack(message)[0]
        self._ended_s = self._left_s = time.monotonic()
        for stream in self._streams:
            stream.drain()
        self._input = -1
        self._control.send(DRAINED)

    def _on_connection(self, _events: int) -> None:
        connection, _ = self._listening.accept()
        uid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
        if uid not in (self._agent_uid, 0):
            connection.close()
            return
        self._drop_agent()
        connection.setblocking(False)
        self._agent, self._frames, self._sends, self._told_end = connection, Frames(), False, False
        self._queued = bytearray(self._hello())

    def _hello(self) -> bytes:
        output, errors = (self._streams[0].ring, self._streams[-1].ring)
        places = (output.first, output.end, errors.first, errors.end)
        return frame(kinds.HELLO, 0, kinds.PLACES.pack(*places, self._is_terminal))

    def _drop_agent(self) -> None:
        if self._agent is not None:
            self._agent.close()
        self._agent, self._sends = None, False
        self._queued.clear()
        self._left_s = time.monotonic()

    def _on_agent(self, events: int) -> None:
        agent = self._agent
        try:
            if agent is not None and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                part = agent.recv(PART)
                if not part:
                    self._drop_agent()
                for kind, offset, payload in self._frames.feed(part):
                    self._do(kind, offset, payload)
            if events & select.POLLOUT:
                self._send_queued()
        except BlockingIOError:
            return
        except (OSError, BadFrame, struct.error):
            self._drop_agent()

    def _do(self, kind: bytes, offset: int, payload: bytes) -> None:
        if kind == kinds.INPUT:
            self._take_input(offset, payload)
        elif kind == kinds.INPUT_ENDS:
            self._end_input(offset)
        elif kind == kinds.SIZE and self._is_terminal:
            self._resize(*kinds.SIZES.unpack(payload))
        elif kind in (kinds.OUTPUT_READ, kinds.ERRORS_READ):
            self._streams[0 if kind == kinds.OUTPUT_READ else -1].ring.confirm(offset)
        elif kind == kinds.RESUME:
            self._resume(kinds.OFFSETS.unpack_from(payload), payload[kinds.OFFSETS.size :])
        elif kind == kinds.DETACHED:
            self._sends = False
            for stream in self._streams:
                stream.ring.let_go()
        elif kind == kinds.DONE:
            self._is_over = self._status is not None

    def _resume(self, offsets: tuple[int, ...], session: bytes) -> None:
        """Send from these offsets on, to this session."""
        self._sends, self._told_end = True, False
        if session != self._session:
            self._session, self._taken_before = session, self._taken
        self._confirm_input()
        for stream, offset in zip(self._streams, offsets, strict=False):
            if offset != kinds.LAST_PART:  # the confirmations may have been lost with the agent
                stream.ring.confirm(offset)
            asked = stream.ring.replay_from() if offset == kinds.LAST_PART else offset
            stream.sent = min(max(asked, stream.ring.first), stream.ring.end)
            stream.ring.hold(stream.sent)
        self._queue(self._hello())  # since the first one, output has come, and older output may have gone

    def _take_input(self, offset: int, payload: bytes) -> None:
        """Take input that there is room for. Bytes taken before are skipped; those behind a gap are not taken.

        The client sends again what is not confirmed.
        """
        offset += self._taken_before
        fresh = payload[self._taken - offset :] if offset <= self._taken else b""
        if self._input_ends:
            self._confirm_input()
            return
        fresh = fresh[: INPUT_WINDOW_BYTES - len(self._pending)]
        self._taken += len(fresh)
        if self._input < 0:  # the process has closed it: the rest goes nowhere, as into a closed pipe
            self._confirm_input()
            return
        self._pending += fresh
        if fresh:
            self._write_input()
        else:  # the client repeats what it has no answer to: the answer was lost on its way
            self._confirm_input()

    def _write_input(self) -> None:
        try:
            while self._pending and self._input >= 0:
                del self._pending[: os.write(self._input, self._pending[:PART])]
        except BlockingIOError:
            pass
        except OSError:
            self._close_input()
        if not self._pending and self._input_ends:
            self._close_input()
        self._confirm_input()

    def _confirm_input(self) -> None:
        written = max(self._taken - len(self._pending) - self._taken_before, 0)
        self._queue(frame(kinds.INPUT_TAKEN, written, b"." if self._input_ends else b""))

    def _end_input(self, offset: int) -> None:
        if offset + self._taken_before != self._taken or self._input_ends:
            self._confirm_input()
            return
        self._input_ends = True
        if self._is_terminal:  # a terminal has no end: the character does what the end of a file does
            self._pending += termios.tcgetattr(self._input)[6][termios.VEOF] if self._input >= 0 else b""
        self._write_input()

    def _close_input(self) -> None:
        self._pending.clear()
        if self._input >= 0 and not self._is_terminal:
            os.close(self._input)
        self._input = -1 if not self._is_terminal else self._input

    def _resize(self, rows: int, columns: int) -> None:
        for stream in self._streams:
            if stream.source >= 0:
                fcntl.ioctl(stream.source, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _queue(self, message: bytes) -> None:
        if self._agent is not None:
            self._queued += message
            self._send_queued()

    def _send_queued(self) -> None:
        try:
            while self._queued and self._agent is not None:
                del self._queued[: self._agent.send(self._queued)]
        except BlockingIOError:
            return
        except OSError:  # it has closed; what it sent before that can still be read
            self._queued.clear()
            self._sends = False

    def _send_output(self) -> None:
        """Send output that was not sent yet, as long as the agent's socket takes it."""
        for stream in self._streams:
            while self._sends and stream.sent < stream.ring.end and len(self._queued) < QUEUED_BYTES:
                begin = max(stream.sent, stream.ring.first)
                part = stream.ring.part(begin, PART)
                stream.sent = begin + len(part)
                self._queue(frame(stream.kind, begin, part))

    def _look_at_end(self) -> None:
        """After the end of the process: say so once all output was sent, and end once nobody waits for it."""
        if self._status is None:
            return
        is_sent = all(stream.sent == stream.ring.end for stream in self._streams)
        if self._sends and is_sent and not self._told_end:
            self._told_end = True
            lengths = [self._streams[0].ring.end, self._streams[-1].ring.end if len(self._streams) > 1 else 0]
            self._queue(frame(kinds.END, 0, kinds.ENDED.pack(self._status, *lengths)))
        now = time.monotonic()
        if now - self._ended_s > MOST_LINGER_S or (self._agent is None and now - self._left_s > LINGER_S):
            self._is_over = True
        if not any(stream.ring.holds for stream in self._streams):
            self._is_over = True


def _streams_of(plan: dict[str, Any], files: list[int]) -> tuple[int, list[Stream]]:
    """The descriptor of the input (-1 without one), and the streams of output."""
    for descriptor in files:
        os.set_blocking(descriptor, descriptor in files[: 1 if plan["pty"] else 2])
    if plan["pty"]:
        file, master = files
        return master, [Stream(kinds.OUTPUT, master, file)]
    output_file, errors_file, output, errors, *rest = files
    streams = [Stream(kinds.OUTPUT, output, output_file), Stream(kinds.ERRORS, errors, errors_file)]
    return rest[0] if rest else -1, streams


def serve(control: socket.socket, plan: dict[str, Any]) -> None:
    """Receive the descriptors: the listening socket, the files, and the streams. Then run."""
    _, descriptors, _, _ = socket.recv_fds(control, 1, 8)
    listening = socket.socket(fileno=descriptors[0])
    _close_others({control.fileno(), *descriptors})
    listening.setblocking(False)
    Relay(control, listening, plan, descriptors[1:]).run()


def _close_others(kept: set[int]) -> None:
    """Close what the helper had open, as its socket."""
    below = 3
    for descriptor in sorted(kept):
        os.closerange(below, descriptor)
        below = descriptor + 1
    os.closerange(below, 65_536)
