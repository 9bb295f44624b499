"""Breakdowns: the priority of pending jobs, factor by factor, and the weights in force.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.store.engine.reading import Reader, Row, fetch, has_view
from rankd.store.engine.word import IN_NUMBERS
from rankd.store.look.job_filter import as_json, by_record, conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.wire.message import JobFilter

_BREAKDOWN = (
    "class_value",
    "points_sum",
    "priority",
    "override",
    "override_by",
    "rank",
    "generation",
    "ranked_at",
)


def has_ranking(connection: Reader) -> bool:
    """Whether there is a ranking: the first generation creates the views with factors."""
    return has_view(connection, "job_priority")


def breakdown(connection: Reader, job_id: int) -> Row | None:
    """A pending job's priority by factor; None before the first ranking."""
    rows = priorities_of(connection, [job_id])
    return {name: rows[0][name] for name in (*_BREAKDOWN, "factors")} if rows else None


def priorities(connection: Reader, wanted: JobFilter) -> list[Row]:
    """Breakdowns of pending jobs by rank; jobs without a rank come last. ``factors`` are in summing order."""
    where, parameters = conditions(by_record(connection, wanted))
    return _priorities(connection, f"job_priority{where} ORDER BY rank IS NULL, rank, id", [*parameters, wanted.limit])


def priorities_of(connection: Reader, ids: Sequence[int]) -> list[Row]:
    """Breakdowns of these pending jobs by rank; jobs without a rank come last."""
    source = f"job_priority WHERE id {IN_NUMBERS} ORDER BY rank IS NULL, rank, id"
    return _priorities(connection, source, [as_json(ids), max(len(ids), 1)])


def head(connection: Reader, limit: int) -> list[Row]:
    """The breakdowns of the highest-ranked jobs, at most 10,000. Reads no other jobs."""
    return _priorities(connection, "queue_head ORDER BY rank", [limit])


def _priorities(connection: Reader, source: str, parameters: list[object]) -> list[Row]:
    if not has_ranking(connection):
        return []
    rows = fetch(connection, f"SELECT * FROM {source} LIMIT ?", parameters)
    by_name = weights(connection)
    for row in rows:
        row["factors"] = [_factor(row, name, weight) for name, weight in by_name.items()]
    return rows


def _factor(row: Row, name: str, weight: float) -> Row:
    """Remove a factor's columns from the row. If its name is that of another column, its column is NAME_factor."""
    value = row.pop(f"{name}_factor") if f"{name}_factor" in row else row.pop(name)
    return {"name": name, "value": value, "weight": weight, "points": row.pop(f"{name}_points")}


def weights(connection: Reader) -> dict[str, float]:
    """The factors of the newest generation with their weights, in the order in which they are summed.

    Empty before the first generation.
    """
    newest = fetch(connection, "SELECT base, weights FROM generation ORDER BY number DESC LIMIT 1")
    if not newest:
        return {}
    sql = "SELECT substr(name, 8) AS name, value FROM generation_numbers WHERE generation = ? AND name LIKE 'weight.%'"
    exact = {row["name"]: row["value"] for row in fetch(connection, sql, [newest[0]["base"]])}
    return {name: exact.get(name, weight) for name, weight in newest[0]["weights"].items()}
