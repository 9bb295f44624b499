"""Where looking commands get their records: from the database if it can be read here, otherwise over the bus.

Both sources give the same records: the intake answers with what :mod:`rankd.store.look` finds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from rankd.cli.common.freshness import Known, say
from rankd.cli.common.place import find
from rankd.core.errors import RankdError
from rankd.store.engine.reading import ReadError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rankd.store.engine.reading import Row
    from rankd.wire.message import AccountingFilter, JobFilter


class Source(Protocol):
    """What looking commands ask for."""

    known: Known
    """Until when the records are up to date."""

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that match the filter, by id. If there are more than the limit, the newest ones and a message."""

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """What jobs used, by id. If there are more than the limit, the newest ones and a message."""

    def accounting_pages(self, wanted: AccountingFilter) -> Iterator[list[Row]]:
        """The same for all jobs after the id ``wanted.after``, a page at a time, whatever the limit."""

    def job(self, job_id: int | str) -> Row:
        """Everything about one job."""

    def script(self, job_id: int | str) -> str:
        """The script of a job of the asker's own."""

    def history(self, job_id: int | str) -> list[Row]:
        """The events of one job, the oldest first."""

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """The points of pending jobs, by rank."""

    def weights(self) -> dict[str, float]:
        """The factors in order, and their weights."""

    def why(self, job_id: int | str) -> Row:
        """A job's rank, points and neighbours."""

    def nodes(self) -> list[Row]:
        """All nodes."""

    def devices(self) -> list[Row]:
        """The devices of all nodes, by node and id."""

    def services(self) -> Row:
        """The services with the time of their last sign of life, and the nodes that are silent."""

    def queues(self) -> list[Row]:
        """All queues."""

    def shares(self) -> list[Row]:
        """All accounts and their users."""

    def classes(self) -> list[Row]:
        """All priority classes."""


def open_source(arguments: argparse.Namespace) -> Source:
    """Open the database, or the broker if only a broker was named or found. Prints which services are silent.

    Raises:
        Unavailable: neither was found.
    """
    place = find(arguments)
    from rankd.cli.common.session import asker

    source: Source
    who, now = asker(arguments), time.time()
    if place.uses_bus:
        from rankd.cli.common.bus_source import BusSource

        source = BusSource(place, who, now)
    else:
        from rankd.cli.common.database_source import DatabaseSource
        from rankd.store.engine.reading import open_for_reading

        source = DatabaseSource(open_for_reading(place.need_database()), now, who.user, is_admin=who.admin)
        say(place.stopped)
    source.known = _known(source, now)
    say(source.known.of_services())
    return source


def _known(source: Source, now: float) -> Known:
    """Ask which services and nodes are silent. Without an answer, none: the command itself then says what is wrong."""
    try:
        found = source.services()
    except (RankdError, ReadError):
        return Known({}, {}, now)
    services = {row["name"]: row["alive_at"] for row in found.get("services", ())}
    return Known(services, {row["name"]: row["heartbeat_at"] for row in found.get("nodes", ())}, now)
