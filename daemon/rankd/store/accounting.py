"""What jobs used: one row per job with the times, the nodes and the measured use of its last run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.store.look import conditions, fetch

if TYPE_CHECKING:
    from rankd.store.look import Reader, Row
    from rankd.wire.message import AccountingFilter

_COLUMNS = """
    id, name, "user", account, queue, partition, qos, state, nodes, cores, resources, time_limit_s, requeues,
    submitted_at, eligible_at, started_at, ended_at, exit_status, signal, nodelist, max_rss_bytes, cpu_s, comment"""


def accounting(connection: Reader, wanted: AccountingFilter) -> list[Row]:
    """Jobs, by id, that were in the system at some time between ``since`` and ``until`` (UTC seconds)."""
    where, parameters = conditions(wanted)
    terms = [where.removeprefix(" WHERE ")] if where else []
    if wanted.since is not None:
        terms.append("(ended_at IS NULL OR ended_at >= ?)")
        parameters.append(wanted.since)
    if wanted.until is not None:
        terms.append("submitted_at <= ?")
        parameters.append(wanted.until)
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    return fetch(connection, f"SELECT {_COLUMNS} FROM job{where} ORDER BY id LIMIT ?", [*parameters, wanted.limit])
