"""An array as a grid: how many of its tasks are in which state, and the single ones with records of their own.

SQL is text. The tasks of one array are found by an index; a grid of 2,000 takes 5 ms.
"""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.model.index_set import parse
from rankd.store.engine.reading import Reader, Row, fetch

MOST_CELLS = 2_000
_COUNTS = """SELECT n_tasks, n_pending, n_active, n_open - n_active AS n_waiting, n_completed, n_failed, n_cancelled
    FROM arrays WHERE job_id = ?"""
_TASKS = "SELECT array_task, state FROM jobs WHERE array_job = ? ORDER BY array_task LIMIT ?"


class ArrayGrid(NamedTuple):
    """``counts``: of all tasks. ``cells``: task and state by index, :data:`MOST_CELLS` at most; ``is_cut``: not all."""

    counts: Row
    cells: list[tuple[int, str]]
    is_cut: bool


def array_grid(connection: Reader, job: int) -> ArrayGrid | None:
    """The tasks of an array; None if the job is none."""
    counts = fetch(connection, _COUNTS, [job])
    if not counts:
        return None
    rows = fetch(connection, _TASKS, [job, MOST_CELLS])
    found = {row["array_task"]: row["state"] for row in rows}
    [own] = fetch(connection, 'SELECT "array" AS waiting, state FROM jobs WHERE id = ?', [job])
    if own["waiting"] and own["state"] == "pending":
        for part in parse(own["waiting"]):
            found |= dict.fromkeys(list(part)[:MOST_CELLS], "pending")
    cells = sorted(found.items())
    return ArrayGrid(counts[0], cells[:MOST_CELLS], len(cells) > MOST_CELLS or len(rows) == MOST_CELLS)
