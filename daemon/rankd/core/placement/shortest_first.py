"""Which job is tried next behind the reserved jobs, with ``backfill_order = "shortest"``.

The rest of a :class:`.Traversal`, by time limit, then submission, then id. Queues do not matter for the order. A cycle
that has such a rest sorts it once.

Source: shortest job backfilled first (Tsafrir, Etsion and Feitelson 2007, EASY-SJBF).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.job_stream import JobStream
from rankd.core.placement.kind_table import KindTable
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

Rest = tuple[int, JobStream, BoolArray]
"""A leaf, a stream of its jobs, and the kinds that are passed in it."""


class Turn(NamedTuple):
    """The next job to try: the id of its leaf queue, its id, its kind."""

    queue: int
    job: int
    kind: int


class ShortestFirst:
    """:meth:`next` returns one job after another, as the traversal does that it continues.

    ``always``: the kinds that are passed everywhere; bool (n_kinds,). ``limited``: see the traversal.
    """

    def __init__(
        self, rest: Sequence[Rest], kinds: KindTable, always: BoolArray, limits: ArrayLimits, limited: list[Turn]
    ) -> None:
        self.always = always
        self.limited = limited
        self._limits = limits
        self._blocked: set[tuple[int, int]] = set()
        self._turns = self._each(rest, kinds)
        self._left = 0
        """The tasks of the present array that were not tried."""
        self._turn = Turn(0, 0, 0)

    def next(self) -> Turn | None:
        """The next job whose kind is not blocked; None if there is no other."""
        while self._left == 0 or self._is_passed():
            following = next(self._turns, None)
            if following is None:
                return None
            self._turn, self._left = following
        self._left -= 1
        return self._turn

    def has_any(self, kinds: BoolArray) -> bool:
        """Whether there may be jobs of any of these kinds, bool (n_kinds,)."""
        return bool(kinds.any())

    def _is_passed(self) -> bool:
        turn = self._turn
        if self.always[turn.kind] or (turn.queue, turn.kind) in self._blocked:
            return True
        if self._limits.is_reached(turn.job):
            self.limited.append(turn)
            return True
        return False

    def started(self, kind: int, given: Resources) -> None:  # noqa: ARG002 - the amounts change no order here
        """The last job was placed."""
        self._limits.start(self._turn.job)

    def pass_rest(self) -> None:
        """Pass the other tasks, if the last job was a task of an array."""
        self._left = 0

    def block(self, queue: int, kind: int) -> None:
        """Pass the other jobs of this kind in this leaf."""
        self._blocked.add((queue, kind))

    def pass_all(self, kinds: BoolArray) -> None:
        """Pass the other jobs of these kinds, bool (n_kinds,), in all leaves."""
        self.always = self.always | kinds

    def _each(self, rest: Sequence[Rest], kinds: KindTable) -> Iterator[tuple[Turn, int]]:
        """Each job with the number of its tasks, in order."""
        parts = [_columns(*one) for one in rest]
        if not parts:
            return
        queues, jobs, of_kinds, submitted_at, tasks = (np.concatenate(column) for column in zip(*parts, strict=True))
        # tasks of an array keep the order that they have in their leaf
        order = np.lexsort((np.arange(len(jobs)), self._limits.arrays_of(jobs), submitted_at, kinds.limits_s[of_kinds]))
        columns = [column[order].tolist() for column in (queues, jobs, of_kinds, tasks)]
        for queue, job, kind, count in zip(*columns, strict=True):
            yield Turn(queue, job, kind), count


def _columns(
    queue: int, stream: JobStream, blocked: BoolArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray, IntArray]:
    """Leaf, id, kind, submission and number of tasks of the jobs that were not tried and whose kinds are not passed."""
    waiting, at = stream.waiting, stream.at
    places = at + np.flatnonzero(~blocked[waiting.kinds[at:]])
    tasks = np.ones(len(places), dtype=np.int64) if waiting.tasks is None else waiting.tasks[places].copy()
    if len(places) and places[0] == at and stream.left is not None:
        tasks[0] = stream.left
    submitted_at = np.zeros(len(places)) if waiting.submitted_at is None else waiting.submitted_at[places]
    return np.full(len(places), queue), waiting.jobs[places], waiting.kinds[places], submitted_at, tasks
