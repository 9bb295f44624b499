"""The records that looking commands show, asked from the intake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.freshness import Known
from rankd.cli.common.limit import EVERYTHING, MOST_BY_BUS, say_cut
from rankd.client.channel import LARGEST_PAGE
from rankd.wire.message import AccountingFilter, JobFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankd.client.asker import Asker
    from rankd.client.place import Place
    from rankd.store.engine.reading import Row


class BusSource:
    """Asks the intake. Most calls send one request; lists come in pages."""

    def __init__(self, place: Place, who: Asker, now: float) -> None:
        self._place = place
        self._who = who
        self.known = Known({}, {}, now)

    def _ask(self, verb: str, message: object) -> object:
        from rankd.client.channel import open_channel
        from rankd.wire.encoding import encode

        with open_channel(self._place, self._who) as channel:
            return channel.request(verb, encode(message), object)

    def _rows(self, verb: str, name: str, message: object, most: int = EVERYTHING) -> list[Row]:
        """The list under its name (``{"jobs": […]}``), from all pages, with at most ``most`` rows."""
        return self._pages(verb, name, msgspec.to_builtins(message), most)[0]

    def _pages(self, verb: str, name: str, request: Row, most: int) -> tuple[list[Row], Row]:
        """The rows of all pages, and the first page's answer."""
        from rankd.client.channel import open_channel, pages

        with open_channel(self._place, self._who) as channel:
            return pages(channel, verb, name, request, most)

    def _listed(self, verb: str, wanted: JobFilter, which: str) -> tuple[list[Row], Row]:
        """Jobs in the order of the pages, up to the limit. If there are more, a message says so."""
        most = MOST_BY_BUS if wanted.limit == EVERYTHING else wanted.limit
        request = msgspec.to_builtins(wanted) | {"count": True, "limit": min(most, LARGEST_PAGE)}
        rows, first = self._pages(verb, "jobs", request, most)
        if len(rows) == most:
            say_cut(most, int(first.get("total") or 0), which)
        return rows, first

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._listed("job.list", wanted, "newest")[0][::-1]

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._listed("job.acct", wanted, "newest")[0][::-1]

    def accounting_pages(self, wanted: AccountingFilter) -> Iterator[list[Row]]:
        """See :class:`.record_source.Source`."""
        from rankd.client.channel import each_page, open_channel

        request = msgspec.to_builtins(wanted) | {"limit": LARGEST_PAGE}
        with open_channel(self._place, self._who) as channel:
            for answer in each_page(channel, "job.acct", request, "jobs"):
                yield answer.get("jobs") or []

    def job(self, job_id: int | str) -> Row:
        """See :class:`.record_source.Source`."""
        record = self._ask("job.show", {"id": job_id})
        return record if isinstance(record, dict) else {}

    def script(self, job_id: int | str) -> str:
        """See :class:`.record_source.Source`."""
        answer = self._ask("job.script", {"id": job_id})
        return str(answer.get("script", "")) if isinstance(answer, dict) else ""

    def history(self, job_id: int | str) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("job.history", "events", {"id": job_id})

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._listed("priority.list", wanted, "next")[0]

    def weights(self) -> dict[str, float]:
        """See :class:`.record_source.Source`."""
        answer = self._ask("priority.list", JobFilter(limit=1))
        return answer.get("weights", {}) if isinstance(answer, dict) else {}

    def why(self, job_id: int | str) -> Row:
        """See :class:`.record_source.Source`."""
        answer = self._ask("job.why", {"id": job_id})
        return answer if isinstance(answer, dict) else {}

    def nodes(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("node.list", "nodes", {})

    def devices(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("device.list", "devices", {})

    def services(self) -> Row:
        """See :class:`.record_source.Source`."""
        answer = self._ask("service.list", {})
        return answer if isinstance(answer, dict) else {}

    def queues(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("queue.list", "queues", {})

    def shares(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("share.list", "shares", {})

    def classes(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return self._rows("class.list", "classes", {})
