"""The order in which all pending jobs would be tried if each were taken in turn.

At every parent the child whose best remaining job shows the highest priority goes first, its offset and
fence applied; ties go by the parent's own order of its children. Under a parent (or in a leaf) whose
``application.sort.priority`` is disabled, priority plays no part between its children. Source: YuniKorn's
priority scheduling design (fences, offsets).

How: every queue is a sequence of jobs with, for each position, the priority that the best of the remaining
jobs shows to the parent. That never rises along the sequence, so a parent's sequence is a stable merge of
its children's, in the children's order on ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankd.core.model.quantity import Resources
from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray, JobColumns
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN

Places = NDArray[np.intp]


class OrderQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue for ordering: its properties and its children's indices in the parent's order (ties)."""

    properties: QueueProperties
    is_root: bool
    children: tuple[int, ...] = ()


class Applications(msgspec.Struct, frozen=True, kw_only=True):
    """The named applications, by index: when each was created (float64) and its place among all by id (int64).

    What ``fair`` and ``stateaware`` leaves need besides: ``queues``, each one's leaf (int64); ``used``, what those
    use that use anything; ``states`` of those that do not simply run. ``pending`` states work outright that no
    job stands for. ``fair_places`` (int64) is made of them, by :func:`.application_order.fair_places`.
    """

    created_at: FloatArray
    id_places: IntArray
    queues: IntArray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    used: Mapping[int, Resources] = {}
    states: Mapping[int, str] = {}
    pending: Mapping[int, Resources] = {}
    fair_places: IntArray | None = None


class _Sequence(msgspec.Struct, frozen=True):
    places: Places
    shown: IntArray


def order_jobs(
    jobs: JobColumns,
    priorities: IntArray,
    queues: Sequence[OrderQueue],
    roots: Sequence[int],
    applications: Applications,
    waiting: BoolArray | None = None,
) -> Places:
    """Places (indices into ``jobs``) of the eligible jobs that are not ``waiting``, first to run first.

    Several roots (partitions) are merged by the priority they show, then in the order given.
    O(n log n) for the leaves, then one merge of sorted runs per level.
    """
    ranked = jobs.eligible if waiting is None else jobs.eligible & ~waiting
    leaves = _leaf_places(jobs, priorities, queues, applications, np.flatnonzero(ranked))
    sequences = [_sequence(root, queues, leaves, priorities) for root in roots]
    return _merge(sequences, by_priority=True).places


def _leaf_places(
    jobs: JobColumns,
    priorities: IntArray,
    queues: Sequence[OrderQueue],
    applications: Applications,
    ranked: Places,
) -> list[Places]:
    """For every queue the places of its own jobs among those ``ranked``, in the leaf's order."""
    by_priority = np.array([queue.properties.sort_priority for queue in queues], dtype=bool)
    keys = _leaf_keys(jobs, priorities, ranked, applications, by_priority)
    ordered = ranked[np.lexsort(keys)] if len(ranked) else ranked
    bounds = np.searchsorted(jobs.queues[ordered], np.arange(len(queues) + 1))
    return [ordered[start:end] for start, end in pairwise(bounds)]


def _leaf_keys(
    jobs: JobColumns,
    priorities: IntArray,
    places: Places,
    applications: Applications,
    by_priority: NDArray[np.bool_],
) -> tuple[NDArray[np.float64] | IntArray, ...]:
    """Keys for lexsort, least significant first.

    Queue; priority (where it counts); in fair leaves the application's usage; its creation time, a job of its
    own before named ones, the application's id; priority again (inside an application); submission; sequence
    number.
    """
    own = jobs.take(places)
    named = own.applications != NO_GROUP
    created, ids = own.submitted_at, own.ids
    if named.any():
        of = np.where(named, own.applications, 0)
        created = np.where(named, applications.created_at[of], created)
        ids = np.where(named, applications.id_places[of], ids)
    descending = -priorities[places]
    first = np.where(by_priority[own.queues], descending, 0) if not by_priority.all() else descending
    if not named.any() and first is descending:
        return own.ids, own.submitted_at, descending, own.queues
    fair = np.zeros_like(ids)
    if named.any() and applications.fair_places is not None:
        fair = np.where(named, applications.fair_places[np.where(named, own.applications, 0)], 0)
    return own.ids, own.submitted_at, descending, ids, named.astype(np.int64), created, fair, first, own.queues


def _sequence(queue: int, queues: Sequence[OrderQueue], leaves: Sequence[Places], priorities: IntArray) -> _Sequence:
    """A queue's jobs in order, with what each position shows to the parent."""
    properties = queues[queue].properties
    children = queues[queue].children
    if children:
        sequences = [_sequence(child, queues, leaves, priorities) for child in children]
        merged = _merge([s for s in sequences if len(s.places)], by_priority=properties.sort_priority)
    else:
        merged = _Sequence(leaves[queue], priorities[leaves[queue]])
    shown = merged.shown if properties.sort_priority else _best_remaining(merged.shown)
    return _Sequence(merged.places, shown if queues[queue].is_root else _lifted(shown, properties))


def _merge(sequences: Sequence[_Sequence], *, by_priority: bool) -> _Sequence:
    """Children's sequences as one; a stable sort, so that a tie keeps the children's order."""
    if not sequences:
        return _Sequence(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64))
    if len(sequences) == 1:
        return sequences[0]
    places = np.concatenate([sequence.places for sequence in sequences])
    shown = np.concatenate([sequence.shown for sequence in sequences])
    if not by_priority:
        return _Sequence(places, shown)
    order = np.argsort(-shown, kind="stable")
    return _Sequence(places[order], shown[order])


def _best_remaining(shown: IntArray) -> IntArray:
    """The maximum of each position and all behind it."""
    return np.maximum.accumulate(shown[::-1])[::-1]


def _lifted(shown: IntArray, properties: QueueProperties) -> IntArray:
    """What the parent sees: the offset added, or a fence's constant."""
    if properties.priority_policy == "fence":
        return np.full_like(shown, properties.priority_offset)
    if not properties.priority_offset:
        return shown
    return np.clip(shown + properties.priority_offset, INT32_MIN, INT32_MAX)
