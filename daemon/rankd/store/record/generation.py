"""Generations: written in stages that hold the lock briefly, and made visible as a whole by one small commit.

Values that are the same for all jobs of an association, a QoS or a queue are one row per group. The order is written in
chunks (:mod:`rankd.store.record.order_rows`). The row in ``generations`` comes last; until then no view shows the
generation. A full generation gets its number when its writing begins. Delta generations that are made meanwhile have
larger numbers, and one of those is based on it once it is visible.

Rows are written in bulk, the rest with SQLAlchemy Core: making a generation visible takes 57 µs before its fsync, as
text 27 µs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import numpy as np
from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy import insert as insert_into

from rankd.core.model.quantity import shown_resources
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.factor import Per
from rankd.core.ranking.ranking import QueueRow, Ranking
from rankd.store.engine.bulk import bulk_replace, bulk_update, change_numbered, replace_numbered, unread
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import most
from rankd.store.record.given_value import name_of_per
from rankd.store.record.order_rows import TableRow, json_list, leaf_rows, order_rows
from rankd.store.schema.generation_table import generations, ranking_head
from rankd.store.schema.metadata import metadata
from rankd.store.schema.migration import replace_views
from rankd.store.schema.table import allocations
from rankd.store.schema.view import FactorColumn, factor_views

HEADERS_KEPT = 100_000
HEAD = 10_000
"""The number of jobs in the view ``queue_head``."""

STAGE_BYTES = 2**18
STAGE_ROWS = 500
"""The most bytes and rows of a stage: one or two milliseconds in which no other process can write."""

_ROW_BYTES = 64

STAGED_AT, STAGED_REVISION = "staged.ranked_at", "staged.revision"
"""Numbers of a full generation, stored after its leaves. They show that the leaves of this pass are complete."""

_NEWEST_NUMBER = select(func.coalesce(func.max(generations.c.number), 0))
_NEWEST_BASE = select(generations.c.base).order_by(generations.c.number.desc()).limit(most(1))
_OLD_HEADERS = delete(generations).where(generations.c.number <= bindparam("last"))
_CHARGED = update(allocations).where(allocations.c.id.in_(values_of("ids"))).values(charged=True)
_BEHIND_HEAD = delete(ranking_head).where(ranking_head.c.rank > bindparam("last"))

Stage = Callable[[Connection], None]


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of ended allocations that this generation moves into the associations' accumulators."""

    associations: list[tuple[float, float, int]]
    allocations: list[int]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A generation's own row. ``base``: the full generation on which it is based; a full one's base is itself.

    ``configuration``: the number of the recorded configuration that was in force.
    """

    number: int
    base: int
    ranked_at: float
    made_at: float
    policy: str
    revision: int
    jobs: int
    new_jobs: int
    weights: dict[str, float]
    durations: dict[str, float]
    failures: dict[str, str]
    configuration: int | None = None

    @property
    def kind(self) -> str:
        """The kind of generation: full or delta."""
        return "full" if self.base == self.number else "delta"


class GenerationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a full pass that is stored. ``association_ids``: the ids of the tree's nodes, -1 for none.

    ``revision``: the last event that the pass includes.
    """

    number: int
    revision: int
    ranking: Ranking
    factors: Sequence[FactorColumn]
    parameters: Sequence[tuple[str, float]]
    partitions: Sequence[tuple[str, float, float]]
    association_ids: IntArray


def newest_number(connection: Connection) -> int:
    """The newest visible generation; 0 before the first."""
    return int(connection.execute(_NEWEST_NUMBER).scalar_one())


def newest_base(connection: Connection) -> int:
    """The full generation on which the newest one is based; 0 before the first."""
    return int(connection.execute(_NEWEST_BASE).scalar_one_or_none() or 0)


def together(parts: Sequence[Stage]) -> Stage:
    """Join several parts, which only write, into one transaction."""

    def run(connection: Connection) -> None:
        with unread(connection):
            for part in parts:
                part(connection)

    return run


def leaf_stages(record: GenerationRecord) -> Iterator[Stage]:
    """The transactions that store the order by leaf. The scheduler loads these rows while the rest is stored."""
    return _stages(_leaf_rows(record))


def stages(record: GenerationRecord) -> Iterator[Stage]:
    """The transactions that store the rest of a full pass, in order. None is visible before :func:`publish`."""
    return _stages(_rows(record))


def _stages(rows: Iterable[TableRow]) -> Iterator[Stage]:
    listed: list[TableRow] = []
    size = 0
    for row in rows:
        listed.append(row)
        size += _ROW_BYTES + sum(len(value) for value in row[1] if isinstance(value, str | bytes))
        if size > STAGE_BYTES or len(listed) == STAGE_ROWS:
            yield _writing(listed)
            listed, size = [], 0
    yield _writing(listed)


def _leaf_rows(record: GenerationRecord) -> Iterator[TableRow]:
    number, ranking = record.number, record.ranking
    assert ranking.base is not None  # noqa: S101 - stored rankings are made for deltas
    yield from leaf_rows(number, ranking.base, ranking.ranked_priorities)
    yield "generation_numbers", (number, STAGED_AT, ranking.now)
    yield "generation_numbers", (number, STAGED_REVISION, record.revision)


def _rows(record: GenerationRecord) -> Iterator[TableRow]:
    number, ranking = record.number, record.ranking
    assert ranking.base is not None  # noqa: S101 - as above
    for factor in ranking.priorities.factors:
        yield "generation_numbers", (number, f"weight.{factor.name}", factor.weight)
    for name, value in record.parameters:
        yield "generation_numbers", (number, name, value)
    for column in record.factors:
        if column.sql is None:
            yield "generation_numbers", (number, name_of_per(column.name), list(Per).index(column.per))
    yield from _value_rows(record)
    for partition in record.partitions:
        yield "generation_partitions", (number, *partition)
    for queue in ranking.queues:
        yield "generation_queues", _queue_row(number, queue)
    yield from _association_rows(record)
    yield from order_rows(number, ranking.base, ranking.ranked_priorities)


def _writing(rows: Sequence[TableRow]) -> Stage:
    by_table: dict[str, list[tuple[object, ...]]] = {}
    for table, row in rows:
        by_table.setdefault(table, []).append(row)

    def write(connection: Connection) -> None:
        with unread(connection):
            for table, listed in by_table.items():
                insert(connection, table, listed)

    return write


def insert(connection: Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert whole rows; rows with the same keys are replaced."""
    bulk_replace(connection, metadata.tables[table], rows)


def _value_rows(record: GenerationRecord) -> Iterator[TableRow]:
    """Values of groups, and of jobs if a factor has no formula in SQL; zeros are left out."""
    stored = {column.name for column in record.factors if column.sql is None}
    for factor in record.ranking.priorities.factors:
        if factor.name in stored:
            places = np.flatnonzero(factor.values)
            for key, value in zip(factor.keys[places].tolist(), factor.values[places].tolist(), strict=True):
                yield "generation_values", (record.number, factor.name, key, value)


def _queue_row(number: int, row: QueueRow) -> tuple[object, ...]:
    amounts = json.dumps(shown_resources(row.pending)), json.dumps(shown_resources(row.used))
    return (number, row.id, row.priority, row.share, row.pending_jobs, *amounts)


def queue_stage(base: int, rows: Iterable[QueueRow]) -> Stage:
    """Update the shown values of queues of a full generation, because deltas are based on it."""
    listed = [_queue_row(base, row) for row in rows]
    return lambda connection: insert(connection, "generation_queues", listed)


def _association_rows(record: GenerationRecord) -> Iterator[TableRow]:
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
    for id_, *values in columns:
        if id_ >= 0:
            shown = (None if math.isnan(value) else value for value in values)
            yield "generation_associations", (record.number, id_, *shown)


def publish(
    header: Header, settlement: Settlement | None = None, new_views: Sequence[FactorColumn] | None = None
) -> Stage:
    """The commit that makes a generation visible, with everything that must become visible together with it.

    ``new_views``: the factors, if the views get other columns from now on.
    """

    def run(connection: Connection) -> None:
        if new_views is not None:
            replace_views(connection, factor_views(new_views))
        if settlement is not None:
            _settle(connection, settlement)
        row = msgspec.structs.asdict(header) | {"kind": header.kind}
        row |= {name: json.dumps(row[name]) for name in ("weights", "durations", "failures")}
        connection.execute(insert_into(generations), row)
        connection.execute(_OLD_HEADERS, {"last": header.number - HEADERS_KEPT})

    return run


def head_stage(old: IntArray, new: IntArray) -> Stage | None:
    """Store the changed rows of the ranking's head; None if nothing has changed. ``old``: what is stored, if known."""
    shared = min(len(old), len(new))
    differing = np.flatnonzero(old[:shared] != new[:shared])
    if not len(differing) and len(old) == len(new):
        return None
    first, last = (int(differing[0]), int(differing[-1]) + 1) if len(differing) else (0, 0)
    changed, added = json_list(new[first:last]), json_list(new[shared:])

    def run(connection: Connection) -> None:
        if first < last:
            change_numbered(connection, ranking_head, first + 1, changed)
        if shared < len(new):
            replace_numbered(connection, ranking_head, shared + 1, added)
        connection.execute(_BEHIND_HEAD, {"last": len(new)})

    return run


def _settle(connection: Connection, settlement: Settlement) -> None:
    if not settlement.allocations:
        return
    bulk_update(connection, "associations", ("usage", "usage_at"), settlement.associations)
    connection.execute(_CHARGED, {"ids": settlement.allocations})
