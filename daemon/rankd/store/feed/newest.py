"""The ids of the last events of jobs and nodes, and the version of the catalog, in one statement.

By them, the prioritizer and the scheduler know whether there is anything to read. (:mod:`.new_pending` has what an
intake compares.)
"""

from __future__ import annotations

from typing import NamedTuple

from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_ids
from rankd.store.record.catalog_version import CATALOG


class Newest(NamedTuple):
    """The last events of jobs and of nodes, and the version of the catalog; each 0 before the first."""

    job_event: int
    node_event: int
    catalog: int


def newest(connection: Connection) -> Newest:
    """What is newest, as this transaction sees it."""
    return Newest(*last_ids(connection, "job_events", "node_events", version=CATALOG))
