"""Resource usage of jobs: one row per job with the times, the nodes and the measured usage of its last run.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rankd.store.engine.reading import fetch
from rankd.store.engine.word import IN_LIST
from rankd.store.look.job_filter import job_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.store.engine.reading import Reader, Row
    from rankd.wire.message import AccountingFilter

_COLUMNS = """
    id, name, "user", account, queue, partition, qos, state, nodes, cores, resources, time_limit_s, requeues,
    submitted_at, eligible_at, started_at, ended_at, exit_status, signal, nodelist, max_rss_bytes, cpu_s,
    measured, comment, array, array_limit, array_job, array_task"""


def accounting(connection: Reader, wanted: AccountingFilter) -> list[Row]:
    """Jobs, by id, that were in the system at some time between ``since`` and ``until`` (UTC seconds).

    If there are more than the limit, returns the newest.
    """
    return accounting_of(connection, job_ids(connection, wanted, *in_time(wanted)))


def accounting_of(connection: Reader, ids: Sequence[int]) -> list[Row]:
    """The usage of these jobs, by id."""
    sql = f"SELECT {_COLUMNS} FROM job WHERE id {IN_LIST} ORDER BY id"
    return fetch(connection, sql, [json.dumps(ids)])


def in_time(wanted: AccountingFilter) -> tuple[list[str], list[object]]:
    """The conditions on the times, and the values of their parameters."""
    terms, parameters = list[str](), list[object]()
    if wanted.since is not None:
        terms.append("(ended_at IS NULL OR ended_at >= ?)")
        parameters.append(wanted.since)
    if wanted.until is not None:
        terms.append("submitted_at <= ?")
        parameters.append(wanted.until)
    return terms, parameters
