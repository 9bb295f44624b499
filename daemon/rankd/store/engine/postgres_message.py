"""Fewer messages to PostgreSQL: a connection of a service whose reads begin and end without waits of their own.

Under load, each answer that a thread waits for costs it a turn of the processor: a millisecond or more, for 50 µs of
the server's work. So a transaction that only reads begins together with its first statement, and ends without waiting
for the answer, which is read before the next one begins. What holds for all transactions is set once for the session.

All this needs a session of its own. Behind a pooler, transactions begin and end with messages of their own.

Writes whose answers nobody reads are sent in one message, up to 64 KiB. If the writer was paused between two parts, the
server would wait for the rest without a limit, and keep its locks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus

Send = Callable[[], None]

logging.getLogger("psycopg").setLevel(logging.ERROR)
"""When a pipeline fails, psycopg also warns of what failed after the error that it raises."""


class Beginning(NamedTuple):
    """How the transactions of an engine begin: a statement, settings, and further statements, such as a lock.

    ``only_reads``: nothing has to know whether they are committed.
    """

    begin: str
    settings: Mapping[str, str | int] = {}
    then: tuple[str, ...] = ()
    only_reads: bool = False

    def statements(self, session: Mapping[str, str | int] | None) -> list[str]:
        """All of it, but for the settings that the session has; None: it has none."""
        other = [(name, value) for name, value in self.settings.items() if (session or {}).get(name) != value]
        return [self.begin, *map(set_local, other), *self.then]


def set_local(setting: tuple[str, str | int]) -> str:
    """The statement for a setting until the end of the transaction."""
    name, value = setting
    return f"SET LOCAL {name} TO {value}"


class WorkConnection(psycopg.Connection[Any]):
    """A service's connection. Its cursors send what :meth:`take_beginning` returns before each statement."""

    session: Mapping[str, str | int] | None = None
    """The settings of the session; None: the session may be another one for each transaction."""
    _begin: Sequence[str] = ()
    _is_reading = False
    _is_answer_due = False

    def hold_session(self, settings: Mapping[str, str | int]) -> None:
        """The session is this connection's own: set this once."""
        for name, value in settings.items():
            self.execute(f"SET {name} TO {value}", prepare=False)
        self.session = settings

    def read_soon(self, begin: Sequence[str]) -> None:
        """Begin a transaction that only reads with these statements, together with its first one."""
        self._begin, self._is_reading = begin, True

    @property
    def begins_soon(self) -> bool:
        """Whether a transaction is to begin with the next statement."""
        return bool(self._begin)

    def take_beginning(self) -> Sequence[str]:
        """What has to be sent before the next statement. Waits for an answer that is still due."""
        if self._is_answer_due:
            self._take_answer()
        begin, self._begin = self._begin, ()
        return begin

    def cursor(self, name: str = "", **options: Any) -> Any:  # noqa: ANN401 - psycopg's
        """See psycopg. A cursor of the server is declared by the driver itself, in a transaction that has begun."""
        if name:
            if self._begin:
                self.execute("SELECT 1")
            return super().cursor(name, **options)
        return super().cursor(**options)

    def commit(self) -> None:
        """Commit. A transaction that has only read ends on the server; what comes next waits for the answer."""
        if self._begin:  # no statement was run
            self._begin, self._is_reading = (), False
        elif self._is_reading:
            self._is_reading = False
            with self.lock:
                self.pgconn.send_query(b"COMMIT")
                self._is_answer_due = True
                self.wait(generators.send(self.pgconn))
        elif not self._is_answer_due:
            super().commit()

    def rollback(self) -> None:
        """Roll back what has begun."""
        self._is_reading = False
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


class _Held(deque[Send]):
    """psycopg's queue of what a pipeline has to send. It seems empty while it holds back what is put in."""

    def __init__(self) -> None:
        super().__init__()
        self._back: list[Send] = []
        self._holds = True

    def append(self, send: Send) -> None:
        """Hold it back, or put it in, together with all that was held back."""
        if self._holds:
            self._back.append(send)
        else:
            sends, self._back = [*self._back, send], []
            super().append(partial(_send_all, sends))

    def release(self) -> None:
        """Hold nothing more. What comes next takes along what was held back: psycopg ends a pipeline with a message."""
        self._holds = False

    def hold(self) -> None:
        """Hold back from now on."""
        self._holds = True


def _send_all(sends: Sequence[Send]) -> None:
    """Let libpq gather all this. psycopg then sends it at once; of more than 64 KiB, libpq sends parts before."""
    for send in sends:
        send()


_held: WeakKeyDictionary[psycopg.Connection[Any], _Held] = WeakKeyDictionary()


@contextmanager
def at_once(driver: psycopg.Connection[Any]) -> Iterator[None]:
    """Hold all statements until the end, and then send them in one message. Within, only :func:`answer` reads."""
    with driver.pipeline() as pipeline:
        pipeline.command_queue = _held[driver] = held = _Held()
        try:
            yield
        finally:
            del _held[driver]
            held.release()


def answer(driver: psycopg.Connection[Any], query: str, parameters: Sequence[object] = ()) -> list[Any]:
    """The rows of a query, also within :func:`at_once`."""
    held = _held.get(driver)
    if held is None:
        return driver.execute(query, parameters).fetchall()
    held.release()
    try:
        return driver.execute(query, parameters).fetchall()
    finally:
        held.hold()
