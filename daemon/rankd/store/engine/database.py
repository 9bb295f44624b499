"""What rankd needs from a database: :class:`Database`.

Services, verbs and tests depend on this protocol. :mod:`.sqlite` implements it, and :func:`.url.open_database` chooses
the implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Row

T = TypeVar("T")

CHECKPOINT_PAGES = 1000
"""A checkpoint is due when the write-ahead log holds this many pages that are not in the file yet."""
ALIVE_EVERY_S = 5.0
"""The holder of a role records a sign of life this often, along with one of its writes if there is one."""


class Database(AbstractAsyncContextManager["Database", None], Protocol):
    """A process opens one database for all of its tasks: ``async with open_database(url) as database``.

    Each work is a synchronous function. It runs as a whole on a thread, in one transaction.
    """

    @property
    def path(self) -> Path:
        """The database's file, or where it would be. Other files of rankd are kept beside it."""

    @property
    def url(self) -> str:
        """What ``--db`` names for another process that opens the same database."""

    async def write(self, work: Callable[[Connection], T], *, role: str | None = None, brief: bool = False) -> T:
        """Run ``work`` as one transaction. With ``role``, it first checks that this process still holds the role.

        ``brief``: a service without a role writes. As with one, a pause ends the transaction, so that others can write.

        Raises:
            RoleLost: another instance has taken the role.
            Unavailable: ``storage_failed``: the disk is full or a device fails; nothing was written.
        """

    async def write_observed(
        self, query: str, work: Callable[[Connection, Row[Any]], T], *, role: str | None = None, brief: bool = False
    ) -> tuple[T, Row[Any]]:
        """As :meth:`write`; ``work`` gets the query's row as it is before, and the result comes with the one after.

        ``query``: text without parameters, for one row. A server answers it in the messages that begin and commit.

        Raises:
            RoleLost, Unavailable: as :meth:`write`.
        """

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run short ``work`` in one read transaction, so that it sees one state of the database.

        Raises:
            Unavailable: ``storage_failed``: the disk is full or a device fails.
        """

    async def ask(self) -> None:
        """Return once the database answers. No read of this process is waited for, where the database has standbys.

        Raises:
            Unavailable: ``storage_failed``: it can't be reached.
        """

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read`, for long work: no short read waits for it."""

    async def look(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read`, for queries of users: no other read waits for them, however many there are."""

    @property
    def group_size(self) -> int:
        """This many jobs, or other works, share a transaction if they wait together (:mod:`.group_commit`)."""

    @property
    def has_standbys(self) -> bool:
        """Whether :meth:`take_role` waits while another process holds the role. If not, it fails."""

    async def take_role(self, role: str, now: float) -> int:
        """Become the only holder of ``role`` until the database is closed; returns the new epoch.

        Raises:
            Unavailable: ``already_running``: another process holds it, and this database has no standbys.
        """

    async def stay_alive(self, role: str) -> float:
        """Record a sign of life of the holder of ``role`` if one is due; returns the seconds until the next call.

        Raises:
            RoleLost, Unavailable: as :meth:`write`.
        """

    def has_followed(self, role: str) -> bool:
        """Whether another process held the role while this one waited for it."""

    def note_ready(self, role: str) -> None:
        """Record soon that this holder of ``role`` has done its first work: its take-over is complete."""

    async def checkpoint(self) -> int:
        """Do the database's regular maintenance if it is due. Only one process does this.

        Returns how many pages its log holds afterwards. Many remain while a reader still uses an earlier state.

        Raises:
            Unavailable: ``storage_failed``: the disk is full or a device fails; no data is lost.
        """

    def trouble(self) -> str | None:
        """What a write is waiting for now, or why the last one failed. None if writing works."""
