"""Generations: written in stages that hold the lock shortly, made visible whole by one small commit.

What is the same for all jobs of an association, a QoS or a queue is a row per group; the order is JSON text in
chunks, by rank and by job id, that plain SQL reads. The row in ``generations`` comes last: until then no view
sees anything of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from sqlalchemy import Connection

from rankd.core.model.quantity import shown_resources
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.ranking import Ranking
from rankd.store.migration import replace_views
from rankd.store.view import CHUNK, FactorColumn, factor_views

KEPT = 3
"""Generations whose order and values are kept; older ones keep their header row."""

HEADERS_KEPT = 100_000
CHUNKS_PER_STAGE = 8
_STAGED = (
    "generation_numbers",
    "generation_values",
    "generation_partitions",
    "generation_queues",
    "generation_associations",
    "ranking_chunks",
    "rank_chunks",
)

Stage = Callable[[Connection], None]


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of ended allocations, moved into the associations' accumulators with this generation."""

    associations: list[tuple[float, float, int]]
    allocations: list[int]


class GenerationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything to be stored of a pass. ``nodes_of_tree``: association id per tree node, -1 for none."""

    number: int
    kind: str
    policy: str
    ranking: Ranking
    revision: int
    new_jobs: int
    factors: Sequence[FactorColumn]
    parameters: Sequence[tuple[str, float]]
    partitions: Sequence[tuple[str, float, float]]
    association_ids: IntArray
    settlement: Settlement
    durations: dict[str, float]
    new_views: bool


def newest_number(connection: Connection) -> int:
    """The newest visible generation; 0 before the first."""
    return int(connection.exec_driver_sql("SELECT coalesce(max(number), 0) FROM generations").scalar_one())


def stages(record: GenerationRecord) -> Iterator[Stage]:
    """The transactions that store a generation, in order; the last one makes it visible."""
    chunks = list(_chunk_rows(record))
    small = len(chunks) <= CHUNKS_PER_STAGE
    first: list[Stage] = [lambda c: _clear(c, record.number), lambda c: _write_groups(c, record)]
    rest: list[Stage] = [
        lambda c, part=chunks[at : at + CHUNKS_PER_STAGE]: _write_chunks(c, part)  # type: ignore[misc]
        for at in range(0, len(chunks), CHUNKS_PER_STAGE)
    ]
    last: list[Stage] = [lambda c: _publish(c, record)]
    if small:
        yield _together(first + rest + last)
        return
    yield _together(first)
    yield from rest
    yield _together(last)


def _together(parts: Sequence[Stage]) -> Stage:
    def run(connection: Connection) -> None:
        for part in parts:
            part(connection)

    return run


def _clear(connection: Connection, number: int) -> None:
    """What a crashed pass left under this number, and what is older than is kept."""
    for table in _STAGED:
        connection.exec_driver_sql(
            f"DELETE FROM {table} WHERE generation >= ? OR generation <= ?",
            (number, number - KEPT),
        )


def _write_groups(connection: Connection, record: GenerationRecord) -> None:
    number, ranking = record.number, record.ranking
    factors = ranking.priorities.factors
    numbers = [(number, f"weight.{row.name}", row.weight) for row in factors]
    numbers += [(number, name, value) for name, value in record.parameters]
    _insert(connection, "generation_numbers", numbers)
    _insert(connection, "generation_values", _value_rows(record))
    _insert(connection, "generation_partitions", [(number, *row) for row in record.partitions])
    _insert(connection, "generation_queues", _queue_rows(record))
    _insert(connection, "generation_associations", _association_rows(record))


def _insert(connection: Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", list(rows))


def _value_rows(record: GenerationRecord) -> list[tuple[object, ...]]:
    """Values of groups, and of jobs where a factor has no formula in SQL; zeros are left out."""
    rows: list[tuple[object, ...]] = []
    stored = {column.name for column in record.factors if column.sql is None}
    for factor in record.ranking.priorities.factors:
        if factor.name in stored:
            places = np.flatnonzero(factor.values)
            pairs = zip(factor.keys[places].tolist(), factor.values[places].tolist(), strict=True)
            rows += [(record.number, factor.name, key, value) for key, value in pairs]
    return rows


def _queue_rows(record: GenerationRecord) -> list[tuple[object, ...]]:
    return [
        (
            record.number,
            row.id,
            row.priority,
            row.share,
            row.pending_jobs,
            json.dumps(shown_resources(row.pending)),
            json.dumps(shown_resources(row.used)),
        )
        for row in record.ranking.queues
    ]


def _association_rows(record: GenerationRecord) -> list[tuple[object, ...]]:
    result = record.ranking.fairshare
    columns = zip(
        record.association_ids.tolist(),
        result.shares_norm.tolist(),
        result.usage.tolist(),
        result.usage_effective.tolist(),
        result.level_fairshare.tolist(),
        result.fairshare.tolist(),
        strict=True,
    )
    return [
        (record.number, id_, *(None if math.isnan(value) else value for value in values))
        for id_, *values in columns
        if id_ >= 0
    ]


def _chunk_rows(record: GenerationRecord) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Rows of both chunk tables, ready to insert."""
    ids, priorities = record.ranking.ids, record.ranking.ranked_priorities
    for chunk, at in enumerate(range(0, len(ids), CHUNK)):
        texts = (_json(ids[at : at + CHUNK]), _json(priorities[at : at + CHUNK]))
        yield "ranking_chunks", (record.number, chunk, at + 1, *texts)
    if not len(ids):
        return
    order = np.argsort(ids, kind="stable")
    by_id, ranks = ids[order], order + 1
    starts = np.flatnonzero(np.diff(by_id // CHUNK, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        first = int(by_id[start])
        yield (
            "rank_chunks",
            (record.number, first // CHUNK, first, _sparse(by_id[start:end] - first, ranks[start:end])),
        )


def _json(values: IntArray) -> str:
    return msgspec.json.encode(values.tolist()).decode()


def _sparse(places: IntArray, ranks: IntArray) -> str:
    """Ranks by place, null between."""
    full: list[int | None] = [None] * (int(places[-1]) + 1)
    for place, rank in zip(places.tolist(), ranks.tolist(), strict=True):
        full[place] = rank
    return msgspec.json.encode(full).decode()


def _write_chunks(connection: Connection, rows: Sequence[tuple[str, tuple[object, ...]]]) -> None:
    for table in ("ranking_chunks", "rank_chunks"):
        _insert(connection, table, [row for name, row in rows if name == table])


def _publish(connection: Connection, record: GenerationRecord) -> None:
    """The commit that makes the generation visible, with what must be seen together with it."""
    if record.new_views:
        replace_views(connection, factor_views(record.factors))
    _settle(connection, record.settlement)
    ranking = record.ranking
    weights = {row.name: row.weight for row in ranking.priorities.factors}
    failures = {error.factor: error.message for error in ranking.priorities.failures}
    connection.exec_driver_sql(
        "INSERT INTO generations (number, kind, ranked_at, policy, revision, jobs, new_jobs, weights, durations,"
        " failures) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.number,
            record.kind,
            ranking.now,
            record.policy,
            record.revision,
            len(ranking.ids),
            record.new_jobs,
            json.dumps(weights),
            json.dumps(record.durations),
            json.dumps(failures),
        ),
    )
    connection.exec_driver_sql("DELETE FROM generations WHERE number <= ?", (record.number - HEADERS_KEPT,))


def _settle(connection: Connection, settlement: Settlement) -> None:
    if not settlement.allocations:
        return
    connection.exec_driver_sql("UPDATE associations SET usage = ?, usage_at = ? WHERE id = ?", settlement.associations)
    connection.exec_driver_sql(
        "UPDATE allocations SET charged = 1 WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(settlement.allocations),),
    )
