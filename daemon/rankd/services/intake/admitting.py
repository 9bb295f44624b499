"""What requests that change jobs use of the intake: its names, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rankd.core.admission.admit import AdmissionTables
from rankd.core.errors import AboveLimit
from rankd.core.model.job import AcceptedJob
from rankd.services.intake.host_groups import HostGroupsOfUsers
from rankd.services.intake.node_watch import NodeWatch
from rankd.store.engine.connection import Connection
from rankd.store.record.catalog import Catalog
from rankd.store.record.job_name import Owner


class Admitting(Protocol):
    """The tables and names that jobs are admitted with at present."""

    catalog: Catalog
    host_groups: HostGroupsOfUsers
    nodes: NodeWatch

    @property
    def tables(self) -> AdmissionTables:
        """The tables that jobs are checked against."""

    async def catch_up(self) -> bool:
        """Load the names that other intakes have changed."""

    async def see_nodes(self) -> None:
        """Update the tables' nodes, if jobs are checked against them."""

    def learn(self) -> None:
        """Load the names that their first use has added to the catalog."""


class Limits(Protocol):
    """The limits of pending jobs, as far as they concern jobs that change."""

    async def changed(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of jobs that are to be like these."""

    async def move(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of jobs that are to come into these accounts."""

    def moved(self, jobs: Sequence[AcceptedJob], *, stored: bool) -> None:
        """Those that :meth:`move` did not refuse are in their accounts, or stay where they were."""

    async def split(self, owners: Sequence[Owner]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of tasks that are to get records of their own."""

    def confirm(
        self,
        connection: Connection,
        *,
        changed: Sequence[AcceptedJob] = (),
        moved: Sequence[AcceptedJob] = (),
        split: Sequence[Owner] = (),
    ) -> None:
        """Check in the transaction what was not refused: others may have taken the room."""

    def was_split(self, owners: Sequence[Owner], *, stored: bool) -> None:
        """Those that :meth:`split` did not refuse have records of their own, or none."""
