"""Where looking commands get their rows from: the database where it is at hand, else the daemon over the bus.

Both give the same records: the intake answers with what :mod:`rankd.store.look` finds.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.freshness import Known, say
from rankd.cli.common.session import LARGEST_PAGE
from rankd.cli.common.target import Place, find
from rankd.core.errors import RankdError
from rankd.store.engine.reading import ReadError, open_for_reading
from rankd.store.look.accounting import accounting, in_time
from rankd.store.look.class_list import classes
from rankd.store.look.filter_check import check_filter
from rankd.store.look.job_detail import job_detail, job_events
from rankd.store.look.job_filter import count_jobs
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes
from rankd.store.look.priority_list import priorities, weights
from rankd.store.look.queue_list import queues
from rankd.store.look.service_list import services
from rankd.store.look.share_list import shares
from rankd.store.look.why import why
from rankd.wire.message import AccountingFilter, JobFilter

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.session import Asker
    from rankd.cli.common.source import Source
    from rankd.store.engine.reading import ReadConnection, Row

EVERYTHING = 2**31 - 1
MOST_BY_BUS = 10_000
"""Jobs that are fetched over the bus where no limit is given, in pages."""


class DatabaseSource:
    """Reads the views; everything that one object answers is of one instant."""

    def __init__(
        self, connection: ReadConnection, now: float, me: str | None = None, *, is_admin: bool = False
    ) -> None:
        self._connection = connection
        self.known = Known({}, {}, now)
        self._me = me
        self._reads_environment_of = None if is_admin else me or ""

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        check_filter(self._connection, wanted, self._me)
        rows = jobs(self._connection, wanted)
        if len(rows) == wanted.limit:
            _say_cut(len(rows), count_jobs(self._connection, wanted), "newest")
        return rows

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        check_filter(self._connection, wanted, self._me)
        rows = accounting(self._connection, wanted)
        if len(rows) == wanted.limit:
            _say_cut(len(rows), count_jobs(self._connection, wanted, *in_time(wanted)), "newest")
        return rows

    def job(self, job_id: int) -> Row:
        """See :class:`.source.Source`."""
        return job_detail(self._connection, job_id, self._reads_environment_of)

    def history(self, job_id: int) -> list[Row]:
        """See :class:`.source.Source`."""
        return job_events(self._connection, job_id)

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        check_filter(self._connection, wanted, self._me)
        return priorities(self._connection, wanted)

    def weights(self) -> dict[str, float]:
        """See :class:`.source.Source`."""
        return weights(self._connection)

    def why(self, job_id: int) -> Row:
        """See :class:`.source.Source`."""
        return why(self._connection, job_id)

    def nodes(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return nodes(self._connection)

    def services(self) -> Row:
        """See :class:`.source.Source`."""
        return services(self._connection)

    def queues(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return queues(self._connection)

    def shares(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return shares(self._connection)

    def classes(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return classes(self._connection)


class BusSource:
    """Asks the daemon; one request per call."""

    def __init__(self, place: Place, who: Asker, now: float) -> None:
        self._place = place
        self._who = who
        self.known = Known({}, {}, now)

    def _ask(self, verb: str, message: object) -> object:
        from rankd.cli.common.session import with_bus
        from rankd.wire.codec import encode

        subject, payload = self._who.subject(verb), encode(message)
        return with_bus(self._place, lambda bus: bus.request(subject, payload, object))

    def _rows(self, verb: str, name: str, message: object, most: int = EVERYTHING) -> list[Row]:
        """The list under its name (``{"jobs": […]}``), page after page, of at most so many rows."""
        return self._pages(verb, name, msgspec.to_builtins(message), most)[0]

    def _pages(self, verb: str, name: str, request: Row, most: int) -> tuple[list[Row], Row]:
        """The rows of all pages, and the first page's answer."""
        from rankd.cli.common.session import ask_pages

        return ask_pages(self._place, self._who.subject(verb), name, request, most)

    def _listed(self, verb: str, wanted: JobFilter, which: str) -> tuple[list[Row], Row]:
        """Jobs in the order of the pages, up to the limit; whoever gets fewer than there are is told."""
        most = MOST_BY_BUS if wanted.limit == EVERYTHING else wanted.limit
        request = msgspec.to_builtins(wanted) | {"count": True, "limit": min(most, LARGEST_PAGE)}
        rows, first = self._pages(verb, "jobs", request, most)
        if len(rows) == most:
            _say_cut(most, int(first.get("total") or 0), which)
        return rows, first

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._listed("job.list", wanted, "newest")[0][::-1]

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._listed("job.acct", wanted, "newest")[0][::-1]

    def job(self, job_id: int) -> Row:
        """See :class:`.source.Source`."""
        record = self._ask("job.show", {"id": job_id})
        return record if isinstance(record, dict) else {}

    def history(self, job_id: int) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._rows("job.history", "events", {"id": job_id})

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._listed("priority.list", wanted, "next")[0]

    def weights(self) -> dict[str, float]:
        """See :class:`.source.Source`."""
        answer = self._ask("priority.list", JobFilter(limit=1))
        return answer.get("weights", {}) if isinstance(answer, dict) else {}

    def why(self, job_id: int) -> Row:
        """See :class:`.source.Source`."""
        answer = self._ask("job.why", {"id": job_id})
        return answer if isinstance(answer, dict) else {}

    def nodes(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._rows("node.list", "nodes", {})

    def services(self) -> Row:
        """See :class:`.source.Source`."""
        answer = self._ask("service.list", {})
        return answer if isinstance(answer, dict) else {}

    def queues(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._rows("queue.list", "queues", {})

    def shares(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._rows("share.list", "shares", {})

    def classes(self) -> list[Row]:
        """See :class:`.source.Source`."""
        return self._rows("class.list", "classes", {})


def _say_cut(shown: int, total: int, which: str) -> None:
    if total > shown:
        what = f"only the {which} {shown:,} of {total:,} jobs are shown"
        print(f"rankd: {what}; give --limit N, or a filter", file=sys.stderr)


def open_source(arguments: argparse.Namespace) -> Source:
    """Open the database, or the broker if only that was named or found. Prints which services are silent.

    Raises:
        Unavailable: neither was found.
    """
    place = find(arguments)
    from rankd.cli.common.session import asker

    source: Source
    who, now = asker(arguments), time.time()
    if place.uses_bus:
        source = BusSource(place, who, now)
    else:
        source = DatabaseSource(open_for_reading(place.need_database()), now, who.user, is_admin=who.admin)
    source.known = _known(source, now)
    say(source.known.of_services())
    return source


def _known(source: Source, now: float) -> Known:
    """Ask; without an answer, everything counts as known, and the command itself says what is wrong."""
    try:
        found = source.services()
    except (RankdError, ReadError):
        return Known({}, {}, now)
    services = {row["name"]: row["alive_at"] for row in found.get("services", ())}
    return Known(services, {row["name"]: row["heartbeat_at"] for row in found.get("nodes", ())}, now)
