"""Where looking commands get their rows from: the database where it is at hand, else the daemon over the bus.

Both give the same records: the intake answers with what :mod:`rankd.store.look` finds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import msgspec

from rankd.cli.place import Place, find
from rankd.store import explain, look
from rankd.store.accounting import accounting
from rankd.store.filter_check import check_filter
from rankd.wire.message import AccountingFilter, JobFilter

if TYPE_CHECKING:
    import argparse
    import sqlite3

    from rankd.cli.session import Asker
    from rankd.store.look import Row

EVERYTHING = 2**31 - 1
MOST_BY_BUS = 500
"""So many records fit into one message of any broker (1 MiB by default)."""


class Source(Protocol):
    """What looking commands ask for."""

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """Jobs that the filter holds for."""

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """What jobs used."""

    def job(self, job_id: int) -> Row:
        """Everything about one job."""

    def history(self, job_id: int) -> list[Row]:
        """What happened to it."""

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """Breakdowns of pending jobs, by rank."""

    def weights(self) -> dict[str, float]:
        """The factors in order, and their weights."""

    def why(self, job_id: int) -> Row:
        """A job's place with its neighbours."""

    def nodes(self) -> list[Row]:
        """All nodes."""

    def queues(self) -> list[Row]:
        """All queues."""

    def shares(self) -> list[Row]:
        """All accounts and their users."""

    def classes(self) -> list[Row]:
        """All priority classes."""


class DatabaseSource:
    """Reads the views; everything that one object answers is of one instant."""

    def __init__(self, connection: sqlite3.Connection, me: str | None = None) -> None:
        self._connection = connection
        self._me = me

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`Source`."""
        check_filter(self._connection, wanted, self._me)
        return look.jobs(self._connection, wanted)

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`Source`."""
        check_filter(self._connection, wanted, self._me)
        return accounting(self._connection, wanted)

    def job(self, job_id: int) -> Row:
        """See :class:`Source`."""
        return look.job(self._connection, job_id)

    def history(self, job_id: int) -> list[Row]:
        """See :class:`Source`."""
        return look.history(self._connection, job_id)

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`Source`."""
        check_filter(self._connection, wanted, self._me)
        return look.priorities(self._connection, wanted)

    def weights(self) -> dict[str, float]:
        """See :class:`Source`."""
        return look.weights(self._connection)

    def why(self, job_id: int) -> Row:
        """See :class:`Source`."""
        return explain.why(self._connection, job_id)

    def nodes(self) -> list[Row]:
        """See :class:`Source`."""
        return look.nodes(self._connection)

    def queues(self) -> list[Row]:
        """See :class:`Source`."""
        return look.queues(self._connection)

    def shares(self) -> list[Row]:
        """See :class:`Source`."""
        return look.shares(self._connection)

    def classes(self) -> list[Row]:
        """See :class:`Source`."""
        return look.classes(self._connection)


class BusSource:
    """Asks the daemon; one request per call."""

    def __init__(self, place: Place, who: Asker) -> None:
        self._place = place
        self._who = who

    def _ask(self, verb: str, message: object) -> object:
        from rankd.cli.session import with_bus
        from rankd.wire.codec import encode

        subject, payload = self._who.subject(verb), encode(message)
        return with_bus(self._place, lambda bus: bus.request(subject, payload, object))

    def _rows(self, verb: str, name: str, message: object) -> list[Row]:
        """The list in the answer, under its name (``{"jobs": […]}``)."""
        answer = self._ask(verb, message)
        rows = answer.get(name) if isinstance(answer, dict) else None
        return rows if isinstance(rows, list) else []

    def _first(self, verb: str, wanted: JobFilter) -> list[Row]:
        """As many jobs as a message holds; whoever gets fewer than there are is told."""
        limit = MOST_BY_BUS if wanted.limit == EVERYTHING else wanted.limit
        rows = self._rows(verb, "jobs", msgspec.structs.replace(wanted, limit=limit))
        if len(rows) == limit < wanted.limit:
            print(f"rankd: the first {limit} jobs only; give a filter or a database (--db)", file=sys.stderr)
        return rows

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`Source`."""
        return self._first("job.list", wanted)

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`Source`."""
        return self._first("job.acct", wanted)

    def job(self, job_id: int) -> Row:
        """See :class:`Source`."""
        record = self._ask("job.show", {"id": job_id})
        return record if isinstance(record, dict) else {}

    def history(self, job_id: int) -> list[Row]:
        """See :class:`Source`."""
        return self._rows("job.history", "events", {"id": job_id})

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`Source`."""
        return self._first("priority.list", wanted)

    def weights(self) -> dict[str, float]:
        """See :class:`Source`."""
        answer = self._ask("priority.list", JobFilter(limit=1))
        return answer.get("weights", {}) if isinstance(answer, dict) else {}

    def why(self, job_id: int) -> Row:
        """See :class:`Source`."""
        answer = self._ask("job.why", {"id": job_id})
        return answer if isinstance(answer, dict) else {}

    def nodes(self) -> list[Row]:
        """See :class:`Source`."""
        return self._rows("node.list", "nodes", {})

    def queues(self) -> list[Row]:
        """See :class:`Source`."""
        return self._rows("queue.list", "queues", {})

    def shares(self) -> list[Row]:
        """See :class:`Source`."""
        return self._rows("share.list", "shares", {})

    def classes(self) -> list[Row]:
        """See :class:`Source`."""
        return self._rows("class.list", "classes", {})


def open_source(arguments: argparse.Namespace) -> Source:
    """The database, unless only the broker was named or known.

    Raises:
        Unavailable: neither is to be found.
    """
    place = find(arguments)
    from rankd.cli.session import asker

    if place.uses_bus:
        return BusSource(place, asker(arguments))
    return DatabaseSource(look.open_for_reading(place.need_database()), asker(arguments).user)
