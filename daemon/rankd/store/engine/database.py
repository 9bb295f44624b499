"""What rankd asks of a database: :class:`Database`.

Services, verbs and tests depend on this protocol. :mod:`.sqlite` implements it, and :func:`.url.open_database` chooses
the implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

CHECKPOINT_PAGES = 1000
"""A checkpoint is due when the write-ahead log holds this many pages that are not in the file yet."""
ALIVE_EVERY_S = 5.0
"""The holder of a role leaves a sign of life this often, with a write of its own work if there is one."""


class Database(AbstractAsyncContextManager["Database", None], Protocol):
    """A process opens one database for all of its tasks: ``async with open_database(url) as database``.

    The work that is passed in is a synchronous function. It runs whole on a thread, in one transaction.
    """

    @property
    def path(self) -> Path:
        """The database's file. Other files of rankd are kept beside it."""

    async def write(self, work: Callable[[Connection], T], *, role: str | None = None) -> T:
        """Run ``work`` as one transaction. With ``role``, the transaction first checks that this process still has it.

        Raises:
            RoleLost: another instance has taken the role.
            Unavailable: ``storage_failed``: the disk is full or a device fails; nothing was written.
        """

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run short ``work`` in one read transaction, so that it sees one state of the database.

        Raises:
            Unavailable: ``storage_failed``: the disk is full or a device fails.
        """

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read`, for work that takes long: no short read waits behind it."""

    async def look(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read`, for users' questions: no other read waits behind them, however many they are."""

    async def take_role(self, role: str, now: float) -> int:
        """Become the only holder of ``role`` until the database is closed; returns the new epoch.

        Raises:
            Unavailable: ``already_running``: another process holds it.
        """

    async def stay_alive(self, role: str) -> None:
        """Leave a sign of life of the holder of ``role``, unless one of its writes has just left one.

        Raises:
            RoleLost, Unavailable: as :meth:`write`.
        """

    async def checkpoint(self) -> int:
        """Do what the database wants done from time to time, if it is due. One process has this duty.

        Returns how many pages its log holds afterwards. Many are left while a reader sees the state before them.

        Raises:
            Unavailable: ``storage_failed``: the disk is full or a device fails; nothing is lost.
        """

    def trouble(self) -> str | None:
        """What a write is waiting for now, or why the last one failed. None if writing works."""
