"""Jobs that have no rank, by state, newest first, for a page: with the same filter as the ranking beside them.

Every look searches a bounded number of records, however many there are: the newest ones, or those of a named user.

SQL is text. A search of 2,000 waiting jobs of a million takes 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.look.job_filter import ACTIVE
from rankd.store.look.job_list import jobs_of
from rankd.store.look.rank_window import RankFilter, conditions
from rankd.wire.job_selection import JobFilter

SEARCHED_WAITING, SEARCHED = 2_000, 20_000
"""The newest records that are searched: of jobs that wait, and of others."""

_UNRANKED = (
    " AND (j.held = 1 OR j.blocked_by IS NOT NULL"
    " OR j.revision > coalesce((SELECT revision FROM generations ORDER BY number DESC LIMIT 1), 0))"
)
"""Jobs that may have no rank: held, waiting for something else, or changed since the newest ranking."""


class JobWindow(NamedTuple):
    """Jobs by id, newest first. ``more``: there are others. ``is_cut``: not all records were searched."""

    rows: list[Row]
    more: bool
    is_cut: bool


def unranked(connection: Reader, wanted: RankFilter, size: int) -> JobWindow:
    """Waiting jobs that the newest ranking does not have."""
    found = _ids(connection, wanted, ["pending"], None, SEARCHED_WAITING, size + 1, _UNRANKED)
    rows = [row for row in _rows(connection, found.ids) if row["rank"] is None]
    return JobWindow(rows[:size], len(found.ids) > size, found.is_cut)


def in_states(
    connection: Reader, wanted: RankFilter, states: Sequence[str], before: int | None, size: int
) -> JobWindow:
    """Jobs in these states with ids below ``before``."""
    found = _ids(connection, wanted, states, before, SEARCHED, size + 1, "")
    rows = _rows(connection, found.ids[:size])
    return JobWindow(rows, len(found.ids) > size, found.is_cut)


class _Found(NamedTuple):
    ids: list[int]
    is_cut: bool


def _ids(
    connection: Reader, wanted: RankFilter, states: Sequence[str], before: int | None, searched: int, size: int,
    further: str,
) -> _Found:  # fmt: skip
    inner, given = _searched(wanted, states, before, searched)
    terms, values = conditions(wanted)
    listed = ", ".join(f"'{state}'" for state in states)
    sql = (
        "SELECT j.id FROM jobs j JOIN associations a ON a.id = j.association_id JOIN queues q ON q.id = j.queue_id"
        f" WHERE j.id IN ({inner}) AND j.state IN ({listed}){further}{terms} ORDER BY j.id DESC LIMIT ?"
    )
    ids = [row["id"] for row in fetch(connection, sql, [*given, *values, size])]
    if len(ids) == size:
        return _Found(ids, is_cut=False)
    number = fetch(connection, f"SELECT count(*) AS n FROM ({inner}) searched", given)[0]["n"]
    return _Found(ids, is_cut=number >= searched)


def _searched(wanted: RankFilter, states: Sequence[str], before: int | None, searched: int) -> tuple[str, list[object]]:
    """A subquery of the records to search: the newest in these states, where an index finds them; else the newest."""
    terms, values = list[str](), list[object]()
    listed = ", ".join(f"'{state}'" for state in states)
    user = wanted.only if wanted.only is not None else wanted.user
    if user is not None:
        terms.append(f's."user" = ? AND s.state IN ({listed})')
        values.append(user)
    elif set(states) <= set(ACTIVE):
        terms.append(f"s.state IN ('pending', 'allocated', 'running') AND s.state IN ({listed})")
    if before is not None:
        terms.append("s.id < ?")
        values.append(before)
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    return f"SELECT s.id FROM jobs s{where} ORDER BY s.id DESC LIMIT ?", [*values, searched]


def _rows(connection: Reader, ids: Sequence[int]) -> list[Row]:
    return jobs_of(connection, ids, JobFilter())[::-1]
