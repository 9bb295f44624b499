"""The newest numbers of what services follow: one small statement tells whether there is anything to read."""

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
