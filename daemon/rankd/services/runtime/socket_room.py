"""How much a login socket carries at a time, of one user and of all. Pure."""

from __future__ import annotations

from collections import Counter

from rankd.core.errors import Unavailable

AT_ONCE = 256
AT_ONCE_PER_USER = 32
"""Open connections, of all and of one user."""
MOST_BYTES = 256 * 2**20
MOST_BYTES_PER_USER = 32 * 2**20
"""Bytes of requests and answers that wait, of all and of one user."""


class SocketRoom:
    """The open connections and the bytes that wait, by user id."""

    def __init__(self) -> None:
        self._open = Counter[int]()
        self._bytes = Counter[int]()

    @property
    def connections(self) -> int:
        """The open connections of all users."""
        return self._open.total()

    def enter(self, uid: int) -> None:
        """Count another connection; :meth:`check` says whether it is one too many."""
        self._open[uid] += 1

    def leave(self, uid: int) -> None:
        """Forget a connection."""
        self._open[uid] -= 1
        self._open += Counter()  # forgets users without a connection

    def check(self, uid: int) -> None:
        """Check that the connections that were counted are not too many.

        Raises:
            Unavailable: ``busy``.
        """
        if self._open[uid] > AT_ONCE_PER_USER or self._open.total() > AT_ONCE:
            raise Unavailable("busy", "too many processes ask at this moment; try again in a second")

    def reserve(self, uid: int, n_bytes: int) -> None:
        """Count bytes that wait. Those of a user who has none waiting are always accepted.

        Raises:
            Unavailable: ``busy``: there are too many.
        """
        of_user, of_all = self._bytes[uid], self._bytes.total()
        if of_user and (of_user + n_bytes > MOST_BYTES_PER_USER or of_all + n_bytes > MOST_BYTES):
            raise Unavailable("busy", "too many bytes wait at this moment; try again in a second")
        self._bytes[uid] += n_bytes

    def release(self, uid: int, n_bytes: int) -> None:
        """Forget bytes that were counted."""
        self._bytes[uid] -= n_bytes
        self._bytes += Counter()
