"""The records that looking commands show, read from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rankd.cli.common.freshness import Known
from rankd.cli.common.limit import PAGE, say_cut
from rankd.store.look.accounting import accounting, accounting_ids, accounting_of, count_accounted
from rankd.store.look.class_list import classes
from rankd.store.look.device_list import devices
from rankd.store.look.filter_check import check_filter
from rankd.store.look.job_detail import job_detail, job_events, owner_of
from rankd.store.look.job_filter import count_jobs
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes
from rankd.store.look.priority_list import priorities, weights
from rankd.store.look.queue_list import queues
from rankd.store.look.service_list import services
from rankd.store.look.share_list import shares
from rankd.store.look.why import why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankd.store.engine.reading import ReadConnection, Row
    from rankd.wire.message import AccountingFilter, JobFilter


class DatabaseSource:
    """Reads the views. All answers of one object are of the same instant."""

    def __init__(
        self, connection: ReadConnection, now: float, me: str | None = None, *, is_admin: bool = False
    ) -> None:
        self._connection = connection
        self.known = Known({}, {}, now)
        self._me = me
        self._reads_environment_of = None if is_admin else me or ""

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        check_filter(self._connection, wanted, self._me)
        rows = jobs(self._connection, wanted)
        if len(rows) == wanted.limit:
            say_cut(len(rows), count_jobs(self._connection, wanted), "newest")
        return rows

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        check_filter(self._connection, wanted, self._me)
        rows = accounting(self._connection, wanted)
        number = len({row["id"] for row in rows})
        if number == wanted.limit:
            say_cut(number, count_accounted(self._connection, wanted), "newest")
        return rows

    def accounting_pages(self, wanted: AccountingFilter) -> Iterator[list[Row]]:
        """See :class:`.record_source.Source`."""
        check_filter(self._connection, wanted, self._me)
        while ids := accounting_ids(self._connection, wanted, PAGE):
            yield accounting_of(self._connection, ids, wanted)
            wanted = replace(wanted, after=ids[-1])

    def job(self, job_id: int | str) -> Row:
        """See :class:`.record_source.Source`."""
        return job_detail(self._connection, job_id, self._reads_environment_of)

    def script(self, job_id: int | str) -> str:
        """See :class:`.record_source.Source`."""
        owner = owner_of(self._connection, job_id)
        if owner is not None and self._reads_environment_of not in (None, owner):
            from rankd.core.admission.permission import OwnedJob, check
            from rankd.core.admission.submitter import Submitter
            from rankd.core.model.array import parse_name

            check(Submitter(self._me or "", privileged=False), "job.script", OwnedJob(parse_name(job_id).job, owner))
        from rankd.store.look.job_script import job_script

        return job_script(self._connection, job_id)

    def history(self, job_id: int | str) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return job_events(self._connection, job_id)

    def priorities(self, wanted: JobFilter) -> list[Row]:
        """See :class:`.record_source.Source`."""
        check_filter(self._connection, wanted, self._me)
        return priorities(self._connection, wanted)

    def weights(self) -> dict[str, float]:
        """See :class:`.record_source.Source`."""
        return weights(self._connection)

    def why(self, job_id: int | str) -> Row:
        """See :class:`.record_source.Source`."""
        return why(self._connection, job_id)

    def nodes(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return nodes(self._connection)

    def devices(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return devices(self._connection)

    def services(self) -> Row:
        """See :class:`.record_source.Source`."""
        return services(self._connection)

    def queues(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return queues(self._connection)

    def shares(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return shares(self._connection)

    def classes(self) -> list[Row]:
        """See :class:`.record_source.Source`."""
        return classes(self._connection)
