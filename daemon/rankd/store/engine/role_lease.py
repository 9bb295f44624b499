"""A role held by a lease in PostgreSQL: taking it over, renewing it, checking it, giving it back.

``core.role.lease`` decides; this module runs the statements. None of them takes the lock of all writers, so a renewal
never waits for a write. A write of the role locks its row with ``FOR KEY SHARE``, which a renewal, an update of other
columns, does not wait for either. A take-over locks the row with ``FOR UPDATE``. So it waits for each write that has
checked the old epoch, and each later one sees the new epoch. A commit that waits for a standby server does not cost the
role: renewals are committed without waiting. A take-over is committed with it, so that no epoch is given twice.

Statements are text, because the declared tables are in a layer above the engine. The check takes 0.1 ms.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.sql import quote
from sqlalchemy.exc import DBAPIError

from rankd.core.errors import RoleLost
from rankd.core.role.lease import (
    RENEW_EVERY_S,
    TTL_S,
    Holding,
    RoleRow,
    Seen,
    left_s,
    may_take,
    renewal_in_s,
    seen,
)

log = logging.getLogger("rankd.role")

OwnClock = Callable[[], float]
Connect = Callable[[], psycopg.Connection[Any]]

_NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
_ROW = f"""SELECT epoch, holder, coalesce(alive_at, since), coalesce(ttl_s, {TTL_S}), resigned_at IS NOT NULL, {_NOW}
FROM roles WHERE name = ?"""
_FIRST = """INSERT INTO roles (name, epoch, holder, since, resigned_at) VALUES (?, 0, '', 0, 0)
ON CONFLICT (name) DO NOTHING"""
_TAKE = f"""UPDATE roles SET epoch = epoch + 1, holder = ?, since = {_NOW}, alive_at = {_NOW}, ttl_s = ?,
    resigned_at = NULL, ready_at = NULL, vacant_at = nullif(coalesce(resigned_at, alive_at, since), 0)
WHERE name = ? RETURNING epoch"""
_MINE = "WHERE name = ? AND epoch = ? AND holder = ?"
_RENEW = f"UPDATE roles SET alive_at = {_NOW} {_MINE}"
_RESIGN = f"UPDATE roles SET resigned_at = {_NOW} {_MINE}"
_READY = f"UPDATE roles SET ready_at = {_NOW} {_MINE} AND ready_at IS NULL"
_CHECK = """SELECT 1 / count(*) FROM (SELECT FROM roles WHERE name = {name} AND epoch = {epoch} AND holder = {holder}
FOR KEY SHARE) mine"""
_BEGIN_TAKE = "BEGIN; SET LOCAL lock_timeout TO 1000; SET LOCAL idle_in_transaction_session_timeout TO 2000"
_BEGIN_QUICK = f"{_BEGIN_TAKE}; SET LOCAL synchronous_commit TO off"


def boot_clock() -> float:
    """Seconds since the machine started. Unlike the monotonic clock, it counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RoleLease:
    """One role of this process. Its connection is used by one thread at a time: until the role is held, the caller's.

    ``connect`` makes a connection that commits each statement by itself.
    """

    def __init__(self, connect: Connect, role: str, clock: OwnClock = boot_clock) -> None:
        self._connect = connect
        self._role = role
        self._clock = clock
        self._holder = f"{os.uname().nodename}:{os.getpid()}"
        self._connection: psycopg.Connection[Any] | None = None
        self._seen: Seen | None = None
        self._held: Holding | None = None
        self._is_lost = False
        self.has_followed = False
        """Whether another instance held the role, and renewed its lease, while this one stood by."""
        self._is_ready: bool | None = False
        """None once it is recorded that the holder has done its first work."""
        self._is_troubled = False
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=self._renew_until_stopped, name=f"lease-{role}", daemon=True)

    @property
    def epoch(self) -> int:
        """The epoch with which this process holds the role; 0 if it does not."""
        return 0 if self._held is None else self._held.epoch

    # --- a standby ----------------------------------------------------------------------------------------------

    def try_take(self) -> bool:
        """Look at the role once, and take it if it is free. From then on, a thread renews the lease.

        Returns False as well if the server can't be asked now, or after :meth:`close`.
        """
        with self._guard:
            try:
                taken = not self._stop.is_set() and self._look()
            except psycopg.Error as error:
                self._disconnect()
                if not self._is_troubled:
                    log.warning("the database can't be asked who is the %s: %s", self._role, _line(error))
                self._is_troubled = True
                return False
            self._is_troubled = False
            if taken:
                self._renewer.start()
        return taken

    def _look(self) -> bool:
        connection = self._connected()
        before = self._clock()
        row = connection.execute(_ROW, (self._role,)).fetchone()
        if row is None:
            connection.execute(_FIRST, (self._role,))
            return self._look()
        before_that, self._seen = self._seen, seen(self._seen, RoleRow(*row[:5]), self._clock())
        self.has_followed |= before_that not in (None, self._seen)
        if before_that is None and not self._seen.row.is_vacant:
            log.info("standing by: the %s is %s, epoch %d", self._role, self._seen.row.holder, self._seen.row.epoch)
        return may_take(self._seen, row[5], before) and self._take(connection, self._seen.row)

    def _take(self, connection: psycopg.Connection[Any], found: RoleRow) -> bool:
        """Take the role unless its row has changed since it was found. Waits for a write of the holder, up to 1 s."""
        connection.execute(_BEGIN_TAKE)
        try:
            row = connection.execute(f"{_ROW} FOR UPDATE", (self._role,)).fetchone()
            if row is None or RoleRow(*row[:5]) != found:
                connection.execute("ROLLBACK")
                return False
            sent_at = self._clock()
            [epoch] = connection.execute(_TAKE, (self._holder, TTL_S, self._role)).fetchone() or [0]
            connection.execute("COMMIT")
        except psycopg.errors.LockNotAvailable:
            connection.execute("ROLLBACK")
            return False
        self._held = Holding(epoch, sent_at)
        if self._clock() - sent_at > RENEW_EVERY_S:  # the commit waited
            self._renew(connection)
        log.info("this process is the %s now, epoch %d", self._role, epoch)
        return True

    # --- the holder ---------------------------------------------------------------------------------------------

    def left_s(self) -> float:
        """For how many seconds the lease certainly lasts.

        Raises:
            RoleLost: another instance has taken the role, or may have.
        """
        if self._held is None or self._is_lost or left_s(self._held, self._clock()) <= 0:
            self._is_lost = True
            raise RoleLost(self._role)
        return left_s(self._held, self._clock())

    def check(self) -> str:
        """A statement of a transaction that fails unless this process holds the role; it keeps it until the end then.

        It runs within :meth:`checking`. Its values are part of it, so that it fits into the message that begins.

        Raises:
            RoleLost: another instance may have taken the role.
        """
        self.left_s()
        return _CHECK.format(name=quote(self._role), epoch=self.epoch, holder=quote(self._holder))

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Where the statement of :meth:`check` runs.

        Raises:
            RoleLost: another instance has taken the role.
        """
        try:
            yield
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.DivisionByZero):
                raise
            self._is_lost = True
            raise RoleLost(self._role) from error

    def note_ready(self) -> None:
        """Let the next renewal record that the holder has done its first work."""
        if self._is_ready is not None:
            self._is_ready = True

    def _renew_until_stopped(self) -> None:
        while self._held is not None and not self._stop.wait(renewal_in_s(self._held, self._clock())):
            if left_s(self._held, self._clock()) <= 0:  # after a pause: the lease is over, whether taken or not
                self._is_lost = True
                return
            try:
                self._renew(self._connected())
            except psycopg.Error as error:
                self._disconnect()
                log.info("the lease of the %s was not renewed: %s", self._role, _line(error))
                self._stop.wait(RENEW_EVERY_S / 4)
            if self._is_lost:
                return

    def _renew(self, connection: psycopg.Connection[Any]) -> None:
        sent_at = self._clock()
        if not self._change(connection, _RENEW):
            self._is_lost = True
        elif self._held is not None:
            self._held = self._held._replace(sent_at=sent_at)
            if self._is_ready:
                self._change(connection, _READY)
                self._is_ready = None

    def _change(self, connection: psycopg.Connection[Any], statement: str) -> bool:
        """Change the role's row without waiting for the disk; whether it is still this process's."""
        connection.execute(_BEGIN_QUICK)
        changed = connection.execute(statement, (self._role, self.epoch, self._holder)).rowcount
        connection.execute("COMMIT")
        return changed == 1

    def close(self, *, wait_s: float = TTL_S) -> None:
        """Stop renewing and give the role back, so that another instance takes it at once. All writes have ended.

        If the server does not answer within ``wait_s`` seconds, the lease just runs out.
        """
        self._stop.set()
        with self._guard:
            if self._renewer.is_alive():
                self._renewer.join(wait_s)
            if not self._renewer.is_alive():
                self._resign()

    def _resign(self) -> None:
        if self._held is not None and not self._is_lost:
            try:
                self._change(self._connected(), _RESIGN)
            except psycopg.Error as error:
                log.info("the role of the %s was not given back: %s", self._role, _line(error))
        self._disconnect()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
