"""The newest bytes of a stream: those that its reader has not confirmed, and some before them for a replay. Pure.

Only the standard library is imported: the relay runs without rankd's dependencies.
"""

from __future__ import annotations

REPLAYED_BYTES = 64 * 1024
WINDOW_BYTES = 1024 * 1024
"""Unconfirmed bytes beyond which no more are read from the process."""


class Ring:
    """Bytes ``first`` to ``end`` of a stream. ``read``: how far the reader has confirmed them."""

    def __init__(self, window: int = WINDOW_BYTES, replayed: int = REPLAYED_BYTES) -> None:
        self.end = 0
        self.read = 0
        self.holds = True
        """Whether bytes wait for a reader. Otherwise each byte counts as read."""
        self._window = window
        self._replayed = replayed
        self._kept = bytearray()

    @property
    def first(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self.end - len(self._kept)

    @property
    def room(self) -> int:
        """How many bytes may be added now.

        >>> ring = Ring(window=10, replayed=4)
        >>> ring.add(b"0123456")
        >>> ring.room
        3
        >>> ring.confirm(5)
        >>> ring.room, ring.first
        (8, 3)
        """
        return max(self._window - (self.end - self.read), 0)

    def add(self, part: bytes) -> None:
        """Add bytes at the end, also beyond the window."""
        self._kept += part
        self.end += len(part)
        if not self.holds:
            self.read = self.end
        self._forget()

    def confirm(self, offset: int) -> None:
        """The reader has all bytes before this offset. An offset that was not reached yet counts as the end."""
        self.read = max(self.read, min(offset, self.end))
        self._forget()

    def let_go(self) -> None:
        """Nobody reads any more: keep only what is replayed."""
        self.holds = False
        self.confirm(self.end)

    def hold(self, offset: int) -> None:
        """Somebody reads again, from this offset on: what was not confirmed from there on is kept."""
        self.holds = True
        self.read = min(self.read, max(offset, self.first))

    def replay_from(self) -> int:
        """The offset where a new reader begins.

        >>> ring = Ring(window=10, replayed=4)
        >>> ring.add(b"0123456")
        >>> ring.replay_from()
        3
        """
        return max(self.first, self.end - self._replayed)

    def part(self, offset: int, most: int) -> bytes:
        """Up to ``most`` bytes from this offset on; from the oldest byte, if that one is not kept any more.

        >>> ring = Ring()
        >>> ring.add(b"0123456")
        >>> ring.part(2, 3)
        b'234'
        """
        begin = max(offset - self.first, 0)
        return bytes(self._kept[begin : begin + most])

    def _forget(self) -> None:
        keep_from = min(self.read, max(self.end - self._replayed, 0))
        if keep_from > self.first:
            del self._kept[: keep_from - self.first]
