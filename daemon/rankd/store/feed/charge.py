"""Charges: the costs of allocations that are not yet part of their associations' usage."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import not_, select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import allocations, jobs


class ChargeRow(NamedTuple):
    """An allocation's charge: ``rate`` is in billing units per second, from ``since`` (UTC seconds) on.

    ``until`` (UTC seconds) is None while the job runs.
    """

    allocation: int
    association: int
    rate: float
    since: float
    until: float | None


def open_charges(connection: Connection) -> list[ChargeRow]:
    """The charges that have not been settled."""
    columns = allocations.c
    query = (
        select(columns.id, jobs.c.association_id, columns.charge_rate, columns.allocated_at, columns.ended_at)
        .join_from(allocations, jobs, jobs.c.id == columns.job_id)
        .where(not_(columns.charged))
    )
    return [ChargeRow._make(row) for row in connection.execute(query)]
