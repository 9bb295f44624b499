"""Ends waits for a database server that does not answer, so that a service can end.

libpq waits for an answer without a limit, and a thread that waits can't be cancelled. But once its socket is shut down,
the wait fails at once. A commit that waits then has an unknown outcome, as after the loss of the server.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

GRACE_S = 5.0
"""What runs when the database is closed may take this long."""


class Sockets:
    """The connections of this process to one server, while they are open."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._is_shut = False

    def note(self, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        """Remember a new connection; returns it. Once :meth:`shut` was called, it is shut at once."""
        with self._guard:
            self._open.add(connection)
            is_shut = self._is_shut
        if is_shut:
            _shut(connection)
        return connection

    def shut(self) -> None:
        """Let all waits on these connections fail, now and later."""
        with self._guard:
            self._is_shut, found = True, list(self._open)
        for connection in found:
            _shut(connection)

    def join(self, wait: Callable[[], None], grace_s: float = GRACE_S) -> None:
        """Call ``wait``, which waits for threads to end. After ``grace_s`` seconds, their connections are shut.

        What is still open afterwards is shut as well: threads of others may wait on it.
        """
        watch = threading.Timer(grace_s, self.shut)
        watch.daemon = True
        watch.start()
        try:
            wait()
        finally:
            watch.cancel()
            self.shut()


def _shut(connection: psycopg.Connection[Any]) -> None:
    with (
        suppress(psycopg.Error, OSError),  # it is closed already
        socket.socket(fileno=os.dup(connection.fileno())) as copy,
    ):
        copy.shutdown(socket.SHUT_RDWR)
