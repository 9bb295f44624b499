"""Fewer messages to PostgreSQL: a connection of a service whose transactions begin and end without waits of their own.

Under load, each answer that a thread waits for costs it a turn of the processor: a millisecond or more, for 50 µs of
the server's work. So a transaction begins in the same message as its first statement. A transaction that only reads
ends without waiting for the answer, which is read before the next one begins. What holds for all transactions is set
once for the session.

All this needs a session of its own. Behind a pooler, transactions begin and end with messages of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus


class Beginning(NamedTuple):
    """How the transactions of an engine begin: a statement, settings, and further statements, such as a lock.

    ``only_reads``: nothing has to know whether they are committed.
    """

    begin: str
    settings: Mapping[str, str | int] = {}
    then: tuple[str, ...] = ()
    only_reads: bool = False

    @property
    def text(self) -> str:
        """All of it, for a message of its own."""
        return "; ".join((self.begin, *map(_local, self.settings.items()), *self.then))

    def statements(self, session: Mapping[str, str | int]) -> list[str]:
        """What is left where the session has these settings."""
        other = [(name, value) for name, value in self.settings.items() if session.get(name) != value]
        return [self.begin, *map(_local, other), *self.then]


def _local(setting: tuple[str, str | int]) -> str:
    name, value = setting
    return f"SET LOCAL {name} TO {value}"


class WorkConnection(psycopg.Connection[Any]):
    """A service's connection. Its cursors send what :meth:`take_beginning` returns before each statement."""

    session: Mapping[str, str | int] | None = None
    """The settings of the session; None: the session may be another one for each transaction."""
    _begin: Sequence[str] = ()
    _only_reads = False
    _is_answer_due = False

    def hold_session(self, settings: Mapping[str, str | int]) -> None:
        """The session is this connection's own: set this once."""
        for name, value in settings.items():
            self.execute(f"SET {name} TO {value}", prepare=False)
        self.session = settings

    def begin_soon(self, statements: Sequence[str], *, only_reads: bool) -> None:
        """Begin a transaction with these statements, in the message of its first one."""
        self._begin, self._only_reads = statements, only_reads

    def take_beginning(self) -> Sequence[str]:
        """What has to be sent before the next statement. Waits for an answer that is still due."""
        if self._is_answer_due:
            self._take_answer()
        begin, self._begin = self._begin, ()
        return begin

    def begin_now(self) -> None:
        """Begin the transaction that is to begin soon, for what is not sent by :meth:`Cursor.execute`."""
        if begin := self.take_beginning():
            with self.pipeline():
                self.send(begin)

    def send(self, begin: Sequence[str]) -> None:
        """Send what begins a transaction. The caller has a pipeline open, which waits for the answers."""
        for statement in begin:
            self.cursor().execute(statement)

    def cursor(self, name: str = "", **options: Any) -> Any:  # noqa: ANN401 - psycopg's
        """See psycopg. A cursor with a name is declared on the server by another way than :meth:`Cursor.execute`."""
        if name:
            self.begin_now()
            return super().cursor(name, **options)
        return super().cursor(**options)

    def commit(self) -> None:
        """Commit. A transaction that has only read ends on the server; what comes next waits for the answer."""
        if self._begin:  # no statement was run
            self._begin = ()
        elif self._only_reads and not self._is_answer_due:
            with self.lock:
                self.pgconn.send_query(b"COMMIT")
                self._is_answer_due = True
                self.wait(generators.send(self.pgconn))
        elif not self._is_answer_due:
            super().commit()

    def rollback(self) -> None:
        """Roll back what has begun."""
        if self._begin:
            self._begin = ()
        elif not self._is_answer_due:
            super().rollback()

    def _take_answer(self) -> None:
        self._is_answer_due = False
        with self.lock:
            results = self.wait(generators.fetch_many(self.pgconn))
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
