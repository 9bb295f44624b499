"""Rows of arrays in lists that count each piece of work once: an array, or its tasks, but not both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.model.id_range import apart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rankd.store.engine.reading import Row


def is_rest(row: Row) -> bool:
    """Whether it is the row of the pending tasks of an array. Other fields of it are the array's."""
    return row.get("array") is not None and row["state"] == "pending" and row.get("array_job") is None


def counted_once(rows: Sequence[Row]) -> list[Row]:
    """The rows without those of arrays without pending tasks, whose tasks have rows of their own.

    These tasks may not be among the rows: a list of failed jobs has no array that failed since a task timed out. An
    array none of whose tasks has a record stays, such as one that was cancelled before any task started.
    """
    return [row for row in rows if not (_has_run_out(row) or has_tasks_alone(row))]


def has_tasks_alone(row: Row) -> bool:
    """Whether it is the record of an array without pending tasks, some of whose tasks have records of their own."""
    return bool(row.get("has_tasks")) and row["array"] is None and row.get("array_job") is None


def _has_run_out(row: Row) -> bool:
    """Whether it is the record of an array without pending tasks: its tasks have rows of their own, on nodes."""
    return row["state"] == "running" and not row["nodelist"]


def accounted_once(rows: Sequence[Row], named: Collection[int | str]) -> list[Row]:
    """The rows without those of arrays whose tasks have rows of their own, and that are not named as a whole.

    A row of pending tasks stays. Named arrays have a row with the sums of what their tasks among the rows used; it
    comes before the one of the pending tasks.
    """
    given = apart(named)
    names = set(given.names)

    def is_named(row: Row) -> bool:
        job = row["id"]
        return row.get("array_job") is None and (job in names or any(job in ids for ids in given.ranges))

    tasks: dict[int, list[Row]] = {}
    for row in rows:
        if row.get("array_job") is not None:
            tasks.setdefault(row["array_job"], []).append(row)
    kept: list[Row] = []
    for row in rows:
        own = tasks.get(row["id"]) if is_named(row) else None
        if own is not None:
            kept.append(_total(row, own))
        if (own is None and not has_tasks_alone(row)) or row["array"] is not None:
            kept.append(row)
    return kept


def _total(row: Row, tasks: Sequence[Row]) -> Row:
    """The row of an array as a whole, with the sums of its tasks."""
    used = [one["cpu_s"] or 0.0 for one in tasks]
    largest = max((one["max_rss_bytes"] or 0 for one in tasks), default=0) or None
    return row | {"array": None, "tasks": list(tasks), "cpu_s": sum(used), "max_rss_bytes": largest}
