"""What requests that change jobs use of the intake: its names."""

from __future__ import annotations

from typing import Protocol

from rankd.core.admission.admit import AdmissionTables
from rankd.services.intake.host_groups import HostGroupsOfUsers
from rankd.services.intake.node_watch import NodeWatch
from rankd.store.record.catalog import Catalog


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
