"""A limit of time for what is read on one connection. Longer queries are interrupted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rankd.core.errors import Unavailable
from rankd.store.engine.reading import Reader

AGAIN_S = 0.2
"""Between two queries, there is nothing to interrupt. So it is tried again until the reading ends."""


@contextmanager
def time_limit(reader: Reader, seconds: float) -> Iterator[None]:
    """Interrupt the queries that run on this connection after this time.

    Raises:
        Unavailable: ``database_unreadable``: it took longer.
    """
    ended, lock = threading.Event(), threading.Lock()
    is_late = False

    def watch() -> None:
        nonlocal is_late
        wait_s = seconds
        while not ended.wait(wait_s):
            with lock:  # so that it never meets a later query on the same connection
                if not ended.is_set():
                    is_late = True
                    _interrupt(reader)
            wait_s = AGAIN_S

    threading.Thread(target=watch, name="time-limit", daemon=True).start()
    try:
        yield
    except Unavailable as error:
        if not is_late:
            raise
        message = f"what was asked for takes the database longer than {seconds:g} s; ask for less, or again later"
        raise Unavailable(error.code, message) from error
    finally:
        with lock:
            ended.set()


def _interrupt(reader: Reader) -> None:
    """End the query that runs, if one does."""
    ending = getattr(reader, "interrupt", None) or getattr(reader, "cancel", None)  # SQLite's, PostgreSQL's
    if ending is not None:
        ending()
