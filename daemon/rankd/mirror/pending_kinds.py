"""The kinds of pending jobs. Cycles decide once for all jobs of a kind, because they have the same request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape

ANY_APPLICATION = -2

_KINDS_AT_LEAST = 4_096

ReadShape = Callable[[int], JobShape]
"""Reads the shape of a job."""


class Rules(NamedTuple):
    """What distinguishes kinds besides the shape and the time limit.

    ``by_user``: leaves in which each user is a separate kind; ``by_application``: the same for applications.
    """

    default_time_limit_s: float | None
    by_user: frozenset[int]
    by_application: frozenset[int]


class KindKey(NamedTuple):
    """A kind in the terms of the records.

    ``user``: empty for any user. ``application``: -1 for a job without one, -2 for any.
    """

    shape: int
    time_limit_s: float | None
    user: str
    application: int

    @property
    def is_plain(self) -> bool:
        """Whether neither the user nor the application matters."""
        return not self.user and self.application == ANY_APPLICATION


class PendingKinds:
    """Kinds by number: ``table`` for cycles, :meth:`key` for the records.

    ``version`` grows when kinds get other numbers or other values for cycles. New kinds alone do not change it.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.version = 0
        self.table = KindTable(known=frozenset())
        self._numbers: dict[tuple[object, ...], int] = {}
        self._keys: list[KindKey] = []
        self._shapes: dict[int, Shape] = {}
        self._most = _KINDS_AT_LEAST

    @property
    def are_too_many(self) -> bool:
        """Whether :meth:`forget` should be called."""
        return len(self.table) > self._most

    def of_batch(self, batch: PendingBatch, read_shape: ReadShape) -> IntArray:
        """The kind of each job, int64 (n,). New kinds are added."""
        counts = np.isin(batch.queues, [*self.rules.by_user, *self.rules.by_application])
        groups, firsts = _groups(batch.shapes, batch.time_limits_s, np.flatnonzero(~counts))
        kinds = np.zeros(len(batch.ids), dtype=np.int64)
        own = [self._number(batch, place, read_shape) for place in firsts.tolist()]
        kinds[~counts] = np.array(own, dtype=np.int64)[groups]
        kinds[counts] = [self._number(batch, place, read_shape) for place in np.flatnonzero(counts).tolist()]
        return kinds

    def know(self, types: Iterable[str]) -> bool:
        """Add resource types that nodes offer or queues limit; returns whether any is new."""
        known = self.table.known or frozenset()
        new = frozenset(types).difference(known)
        if new:
            self.table = KindTable(self.table.kinds, new.union(known))
            self.version += 1
        return bool(new)

    def forget(self, kinds: IntArray, is_pending: BoolArray) -> IntArray:
        """Keep only the kinds of pending jobs; returns the new numbers of ``kinds``, int64 (n,)."""
        kept = np.unique(kinds[is_pending])
        numbers = np.zeros(len(self.table), dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        names = {number: name for name, number in self._numbers.items()}
        self._numbers = {names[kind]: number for number, kind in enumerate(kept.tolist())}
        self._keys = [self._keys[kind] for kind in kept.tolist()]
        self.table = KindTable((self.table[kind] for kind in kept.tolist()), self.table.known)
        self._shapes = {key.shape: kind.shape for key, kind in zip(self._keys, self.table.kinds, strict=True)}
        self._most = max(_KINDS_AT_LEAST, 4 * len(kept))
        self.version += 1
        return numbers[kinds]

    def key(self, kind: int) -> KindKey:
        """The values that all jobs of a kind share in the records."""
        return self._keys[kind]

    def _number(self, batch: PendingBatch, place: int, read_shape: ReadShape) -> int:
        """The kind of one job of the batch; made if there is none yet."""
        queue, shape, limit = int(batch.queues[place]), int(batch.shapes[place]), float(batch.time_limits_s[place])
        time_limit_s = None if math.isnan(limit) else limit
        user, groups = (str(batch.users[place]), batch.groups[place]) if queue in self.rules.by_user else ("", None)
        counts = queue in self.rules.by_application
        application = int(batch.applications[place]) if counts else NO_GROUP
        name = (shape, time_limit_s, user, groups, application, counts)
        number = self._numbers.get(name)
        if number is None:
            kind = Kind(
                shape=self._shape(shape, int(batch.ids[place]), read_shape),
                time_limit_s=self.rules.default_time_limit_s if time_limit_s is None else time_limit_s,
                user=user,
                groups=tuple(json.loads(groups)) if groups else (),
                application=application,
            )
            number = self._numbers[name] = self.table.add(kind)
            self._keys.append(KindKey(shape, time_limit_s, user, application if counts else ANY_APPLICATION))
        return number

    def _shape(self, key: int, job: int, read_shape: ReadShape) -> Shape:
        if key not in self._shapes:
            found = read_shape(job)
            self._shapes[key] = Shape(
                partition=found.partition,
                nodes=found.nodes,
                min_nodes=found.min_nodes,
                resources=found.resources,
                constraints=found.constraints,
                exclusive=found.exclusive,
            )
        return self._shapes[key]


def _groups(shapes: IntArray, time_limits_s: FloatArray, places: IntArray) -> tuple[IntArray, IntArray]:
    """Group the jobs at ``places`` by shape and time limit.

    Returns the group of each of those jobs, int64 (n_places,), and the place of the first job of each group.
    """
    of_shape = np.unique(shapes[places], return_inverse=True)[1]
    values, of_limit = np.unique(np.nan_to_num(time_limits_s[places], nan=-1.0), return_inverse=True)
    _, firsts, groups = np.unique(of_shape * (len(values) + 1) + of_limit, return_index=True, return_inverse=True)
    return groups, places[firsts]
