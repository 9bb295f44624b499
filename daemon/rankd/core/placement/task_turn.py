"""The order of the tasks of one array: ascending by index, also those that have records of their own.

A task gets a record, with a larger id than its array, when it starts or is addressed alone. So a task that is queued
again, was released, or was changed alone would come after all others, by its id. Here it comes at its index instead:
the array's entry is divided where such a task belongs. Only tasks with the same priority as their array move; jobs of
others between them were submitted at the same instant. Under first come, first served, each record has a priority by
its own id. Tasks with such a priority come with their array, which was submitted first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rankd.core.model.index_set import EMPTY, IndexSet
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.priority import initial_priority

MOST = 10_000
"""In a leaf with more tasks that have records of their own, they go by their ids: a cycle must not take long."""


class TaskTurn(NamedTuple):
    """The array of a task that has a record of its own, and its index."""

    array: int
    task: int


class _Part(NamedTuple):
    """The entry at a place of the ranking, with the number of tasks that it stands for here."""

    place: int
    tasks: int


def in_turn(
    waiting: WaitingJobs, tasks: Mapping[int, TaskTurn], rests: Mapping[int, IndexSet], n_ranked: int | None = None
) -> WaitingJobs:
    """The jobs of a leaf, with the tasks of each array in ascending order. The same object, if nothing moves.

    Args:
        waiting: the jobs of a leaf. An array may have several entries in the result, each with a part of its tasks.
        tasks: the pending tasks with records of their own.
        rests: by array, the indices that are pending in its record.
        n_ranked: the jobs from this place on are not ranked yet; None: all are. A task of them that is otherwise like
            its array comes with it.
    """
    own = np.flatnonzero(np.isin(waiting.jobs, np.fromiter(tasks, dtype=np.int64, count=len(tasks))))
    if not 0 < len(own) <= MOST:
        return waiting
    turns = {place: tasks[int(waiting.jobs[place])] for place in own.tolist()}
    places: dict[int, list[int]] = {}
    for place, turn in turns.items():
        places.setdefault(turn.array, []).append(place)
    rest_at = {int(waiting.jobs[at]): at for at in np.flatnonzero(np.isin(waiting.jobs, list(places))).tolist()}
    late = len(waiting.jobs) if n_ranked is None else n_ranked
    groups = (group for array in places for group in _groups(waiting, places[array], rest_at.get(array), late))
    moved = [_parts(waiting, turns, group, rests) for group in groups]
    return _arranged(waiting, [parts for parts in moved if _moves(parts)])


def _groups(waiting: WaitingJobs, tasks: Sequence[int], rest: int | None, n_ranked: int) -> Iterator[list[int]]:
    """The places of an array's entries that belong together: with the same priority and application."""
    found: dict[tuple[int | None, int], list[int]] = {}
    for place in tasks if rest is None else [rest, *tasks]:
        like = place
        if rest is not None and place >= n_ranked and waiting.kinds[place] == waiting.kinds[rest]:
            like = rest
        application = -1 if waiting.applications is None else int(waiting.applications[like])
        found.setdefault((_compared_priority(waiting, like), application), []).append(place)
    return (sorted(group) for group in found.values() if len(group) > 1)


def _compared_priority(waiting: WaitingJobs, place: int) -> int | None:
    """The priority by which tasks of an array are compared; None: it is that of first come, first served."""
    priority = int(waiting.priorities[place])
    return None if priority == initial_priority(waiting.jobs[place]) else priority


def _parts(
    waiting: WaitingJobs, turns: Mapping[int, TaskTurn], group: Sequence[int], rests: Mapping[int, IndexSet]
) -> list[_Part]:
    """The entries of a group in the order of their indices; the array's rest is divided between its tasks."""
    single = sorted((turns[place].task, place) for place in group if place in turns)
    rest = next((place for place in group if place not in turns), None)
    if rest is None:
        return [_Part(place, 1) for _, place in single]
    left = 1 if waiting.tasks is None else int(waiting.tasks[rest])
    indices = rests.get(int(waiting.jobs[rest]), EMPTY)
    parts: list[_Part] = []
    passed = 0
    for index, place in single:
        before = min(_below(indices, index) - passed, left)
        if before > 0:
            parts.append(_Part(rest, before))
            passed, left = passed + before, left - before
        parts.append(_Part(place, 1))
    return [*parts, _Part(rest, left)] if left else parts


def _below(indices: IndexSet, index: int) -> int:
    """The number of these indices that are smaller."""
    return sum(len(range(one.start, min(one.stop, index), one.step)) for one in indices if one.start < index)


def _moves(parts: Sequence[_Part]) -> bool:
    places = [part.place for part in parts]
    return any(later <= earlier for earlier, later in pairwise(places))


def _arranged(waiting: WaitingJobs, groups: Sequence[Sequence[_Part]]) -> WaitingJobs:
    """The entries of each group come one behind the other, where its first one is."""
    if not groups:
        return waiting
    order, numbers = np.arange(len(waiting.jobs)), waiting.tasks
    counts: IntArray = np.ones(len(order), dtype=np.int64) if numbers is None else numbers.copy()
    first = {min(part.place for part in parts): parts for parts in groups}
    gone = sorted({part.place for parts in groups for part in parts})
    at = np.array(list(first), dtype=np.int64) - np.searchsorted(gone, list(first))
    kept = np.delete(order, gone)
    where = np.repeat(at, [len(parts) for parts in first.values()])
    every = [part for parts in first.values() for part in parts]
    order = np.insert(kept, where, [part.place for part in every])
    counts = np.insert(counts[kept], where, [part.tasks for part in every])
    priorities = waiting.priorities[order]
    ahead = {part.place: place for place, parts in first.items() for part in parts}
    for place in np.flatnonzero(np.isin(order, list(ahead))).tolist():
        priorities[place] = waiting.priorities[ahead[int(order[place])]]
    columns = {
        name: None if (column := getattr(waiting, name)) is None else column[order]
        for name in ("applications", "submitted_at")
    }
    return WaitingJobs(
        jobs=waiting.jobs[order],
        priorities=priorities,
        kinds=waiting.kinds[order],
        tasks=None if numbers is None and (counts == 1).all() else counts,
        **columns,
    )
