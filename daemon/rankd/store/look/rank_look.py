"""The ranks of all jobs at once, and the job with a given rank.

Both are computed in Python from the stored chunks, because SQL would have to number all rows. SQL is text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rankd.store.engine.word import number_in
from rankd.store.schema.rank_view import PRIORITY_WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rankd.store.engine.reading import Reader


def whole_ranking(connection: Reader) -> Mapping[int, tuple[int, int]]:
    """Rank and priority of every ranked job, from the stored chunks: 0.25 s for 400,000 jobs."""
    base = _newest_base(connection)
    inserted, removed = _delta(connection, base)
    ordered: list[tuple[int, int]] = []
    sql = "SELECT first_rank, ids, priorities FROM ranking_chunks WHERE generation = ? ORDER BY chunk"
    last = 0
    for first, texts, priorities in _rows(connection, sql, [base]):
        ids = msgspec.json.decode(texts, type=list[int])
        for last, entry in enumerate(zip(ids, _numbers(priorities), strict=True), start=first):
            if last in inserted:
                ordered += inserted[last]
            if last not in removed:
                ordered.append(entry)
    ordered += inserted.get(last + 1, [])
    return {job: (rank, priority) for rank, (job, priority) in enumerate(ordered, start=1)}


def _numbers(text: bytes) -> list[int]:
    return [int(text[at : at + PRIORITY_WIDTH]) for at in range(0, len(text), PRIORITY_WIDTH)]


def _delta(connection: Reader, base: int) -> tuple[dict[int, list[tuple[int, int]]], set[int]]:
    """The changes of deltas: inserted jobs and priorities, by the rank that follows them, and the removed ranks."""
    sql = (
        "SELECT d.positions, d.ids, d.priorities FROM ranking_delta_places p JOIN ranking_deltas d"
        " ON d.generation = p.generation AND d.chunk = p.chunk WHERE p.generation = ?"
        " ORDER BY p.first_position, p.place"
    )
    inserted: dict[int, list[tuple[int, int]]] = {}
    removed = set()
    for row in _rows(connection, sql, [base]):
        columns = (msgspec.json.decode(text, type=list[int]) for text in row)
        for position, job_id, priority in zip(*columns, strict=True):
            if position > 0:
                inserted.setdefault(position, []).append((job_id, priority))
            else:
                removed.add(-position)
    return inserted, removed


def _newest_base(connection: Reader) -> int:
    """The number of the full generation that the newest generation is based on; 0 before the first."""
    rows = _rows(connection, "SELECT base FROM generations ORDER BY number DESC LIMIT 1")
    return int(rows[0][0]) if rows else 0


def at_rank(connection: Reader, rank: int) -> int | None:
    """The job with a rank; None if no job has it."""
    base, shift = _newest_base(connection), 0
    sql = (
        "SELECT p.shift, d.positions, d.ids FROM ranking_delta_places p JOIN ranking_deltas d"
        " ON d.generation = p.generation AND d.chunk = p.chunk"
        " WHERE p.generation = ? AND p.first_position - 1 + p.shift < ?"
        " ORDER BY p.first_position DESC, p.place DESC LIMIT 1"
    )
    for before, *texts in _rows(connection, sql, [base, rank]):
        shift = before
        columns = (msgspec.json.decode(text, type=list[int]) for text in texts)
        for position, job_id in zip(*columns, strict=True):
            if abs(position) - 1 + shift >= rank:
                break
            if position > 0 and position + shift == rank:
                return int(job_id)
            shift += 1 if position > 0 else -1
    sql = (
        f"SELECT {number_in('ids', '? - first_rank')} FROM ranking_chunks"
        " WHERE generation = ? AND first_rank <= ? ORDER BY chunk DESC LIMIT 1"
    )
    rows = _rows(connection, sql, [rank - shift, base, rank - shift])
    return int(rows[0][0]) if rows and rows[0][0] is not None else None


def _rows(connection: Reader, sql: str, parameters: Sequence[object] = ()) -> Sequence[Any]:
    cursor = connection.cursor()
    try:
        cursor.execute(sql, tuple(parameters))
        return cursor.fetchall()
    finally:
        cursor.close()
