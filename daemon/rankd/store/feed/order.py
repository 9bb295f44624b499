"""The ranking as the scheduler follows it: the newest generation, a full one's leaves, and a delta's chunks.

The statements are text because they run often: the scheduler reads the newest generation at every wake-up. A leaf is
read as three byte strings, which numpy uses directly: a million ranked jobs in 2,000 leaves take 30 ms.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.delta import Entries
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.record.generation import STAGED_AT, STAGED_REVISION

MAX_ID = 2**63 - 1
"""The largest id that a queue can have."""

_NEWEST = "SELECT number, base, revision, ranked_at FROM generations ORDER BY number DESC LIMIT 1"

_NEW_JOBS = "SELECT coalesce(sum(new_jobs), 0) FROM generations WHERE number > ?"

_STAGED = f"""
SELECT at.generation, at.value, cast(revision.value AS INTEGER)
FROM generation_numbers at JOIN generation_numbers revision
ON revision.generation = at.generation AND revision.name = '{STAGED_REVISION}'
WHERE at.generation > ? AND at.name = '{STAGED_AT}' ORDER BY at.generation DESC LIMIT 1"""

_LEAVES = """
SELECT queue_id, ids, priorities, ranks FROM ranking_leaves WHERE generation = ? AND queue_id BETWEEN ? AND ?
ORDER BY queue_id, chunk"""

_CHANGED = "SELECT chunk, positions, ids, priorities, queues FROM ranking_deltas WHERE generation = ? AND number > ?"

_PLACES = "SELECT chunk FROM ranking_delta_places WHERE generation = ? ORDER BY first_position, place"

_INTEGERS = msgspec.json.Decoder(list[int])


class NewestGeneration(NamedTuple):
    """The newest visible generation.

    ``base`` is the full generation that it is based on. ``revision`` is the last job event that it includes.
    ``ranked_at`` is in UTC seconds.
    """

    number: int
    base: int
    revision: int
    ranked_at: float


class StagedGeneration(NamedTuple):
    """A full generation with stored leaves that is not visible yet. Fields as in :class:`NewestGeneration`."""

    number: int
    ranked_at: float
    revision: int


class RankedLeaf(NamedTuple):
    """A leaf of a full generation: ids and priorities, int64 (n_jobs,), and ranks, int32 (n_jobs,)."""

    ids: IntArray
    priorities: IntArray
    ranks: IntArray


class DeltaChanges(NamedTuple):
    """The present state of a delta.

    ``places``: the numbers of all its chunks, in order. ``changed``: the entries of the chunks that were written after
    the requested generation.
    """

    places: list[int]
    changed: dict[int, Entries]


def newest_generation(connection: Connection) -> NewestGeneration | None:
    """The newest generation; None before the first generation."""
    row = connection.exec_driver_sql(_NEWEST).first()
    return None if row is None else NewestGeneration(*row)


def staged_generation(connection: Connection, visible: int) -> StagedGeneration | None:
    """The full generation that is staged after the visible full one; None if there is none."""
    row = connection.exec_driver_sql(_STAGED, (visible,)).first()
    return None if row is None else StagedGeneration(*row)


def new_jobs_since(connection: Connection, generation: int) -> int:
    """How many new jobs the generations after this one have."""
    return int(connection.exec_driver_sql(_NEW_JOBS, (generation,)).scalar_one())


def read_leaves(connection: Connection, generation: int, first: int = 0, last: int = MAX_ID) -> dict[int, RankedLeaf]:
    """Leaves of a full generation, visible or staged, by queue id from ``first`` to ``last``."""
    parts: dict[int, list[RankedLeaf]] = {}
    rows = chain.from_iterable(stream(connection, _LEAVES, (generation, first, last)))
    for queue, ids, priorities, ranks in rows:
        leaf = RankedLeaf(
            np.frombuffer(ids, dtype="<i8"),
            np.frombuffer(priorities, dtype="<i4").astype(np.int64),
            np.frombuffer(ranks, dtype="<i4"),
        )
        parts.setdefault(queue, []).append(leaf)
    return {
        queue: own[0] if len(own) == 1 else RankedLeaf(*map(np.concatenate, zip(*own, strict=True)))
        for queue, own in parts.items()
    }


def read_delta(connection: Connection, base: int, since: int) -> DeltaChanges:
    """The delta based on the full generation ``base``. ``since``: the newest generation whose delta is known."""
    changed = {
        chunk: Entries(*(np.array(_INTEGERS.decode(text), dtype=np.int64) for text in texts))
        for chunk, *texts in connection.exec_driver_sql(_CHANGED, (base, since))
    }
    return DeltaChanges([row[0] for row in connection.exec_driver_sql(_PLACES, (base,))], changed)
