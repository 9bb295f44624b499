"""What looking commands ask for, wherever the records come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rankd.cli.common.freshness import Known
    from rankd.store.engine.reading import Row
    from rankd.wire.message import AccountingFilter, JobFilter


class Source(Protocol):
    """What looking commands ask for."""

    known: Known
    """Until when the records say how things are."""

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """Jobs that the filter holds for, by id; if the limit cuts, the newest, which is said."""

    def accounting(self, wanted: AccountingFilter) -> list[Row]:
        """What jobs used, by id; if the limit cuts, the newest, which is said."""

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

    def services(self) -> Row:
        """The services, when each was last alive, and which nodes were silent."""

    def queues(self) -> list[Row]:
        """All queues."""

    def shares(self) -> list[Row]:
        """All accounts and their users."""

    def classes(self) -> list[Row]:
        """All priority classes."""
