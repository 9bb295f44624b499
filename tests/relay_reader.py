"""An agent's side of a relay, for tests: blocking, and cut at any moment."""

from __future__ import annotations

import select
import socket
import time
from pathlib import Path

from watch import PATIENCE_S

from rankd.services.keeper import relay_frame as kinds
from rankd.services.keeper.relay_frame import Frames, frame


class RelayReader:
    """Collects output and errors across connections, and knows how far the input was taken."""

    def __init__(self, path: Path, session: bytes = b"s1") -> None:
        self.path = path
        self.session = session
        self.output = bytearray()
        self.errors = bytearray()
        self.begins = {kinds.OUTPUT: 0, kinds.ERRORS: 0}
        self.taken = -1
        self.status: int | None = None
        self.connection: socket.socket | None = None

    def connect(self, *, replays: bool = False) -> RelayReader:
        """Connect, as soon as the relay listens, and ask for what is missing."""
        self.cut()
        until = time.monotonic() + PATIENCE_S
        while True:
            self.connection = socket.socket(socket.AF_UNIX)
            try:
                self.connection.connect(str(self.path))
                break
            except OSError:
                self.connection.close()
                assert time.monotonic() < until
        self._frames = Frames()
        offsets = [len(self.output) + self.begins[kinds.OUTPUT], len(self.errors) + self.begins[kinds.ERRORS]]
        asked = [kinds.LAST_PART, kinds.LAST_PART] if replays else offsets
        self._replays = replays
        self.send(kinds.RESUME, 0, kinds.OFFSETS.pack(*asked) + self.session)
        return self

    def cut(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def send(self, kind: bytes, offset: int = 0, payload: bytes = b"") -> None:
        self.connection.sendall(frame(kind, offset, payload))

    def read(self, most: int = 65_536) -> bool:
        """Read once; False at the end of the connection."""
        assert select.select([self.connection], [], [], PATIENCE_S)[0], bytes(self.output[-1000:])
        part = self.connection.recv(most)
        for kind, offset, payload in self._frames.feed(part):
            self._do(kind, offset, payload)
        return bool(part)

    def _do(self, kind: bytes, offset: int, payload: bytes) -> None:
        if kind in (kinds.OUTPUT, kinds.ERRORS):
            stream = self.output if kind == kinds.OUTPUT else self.errors
            if self._replays and not stream:
                self.begins[kind] = offset
            assert offset == len(stream) + self.begins[kind]
            stream += payload
            confirmed = kinds.OUTPUT_READ if kind == kinds.OUTPUT else kinds.ERRORS_READ
            self.send(confirmed, offset + len(payload))
        elif kind == kinds.INPUT_TAKEN:
            self.taken = offset
        elif kind == kinds.END:
            self.status, *_ = kinds.ENDED.unpack(payload)

    def until(self, condition) -> None:
        while not condition():
            assert self.read()

    def until_end(self) -> int:
        """Read to the end of the process; its status. Then the session is over."""
        self.until(lambda: self.status is not None)
        self.send(kinds.DONE)
        self.cut()
        return self.status
