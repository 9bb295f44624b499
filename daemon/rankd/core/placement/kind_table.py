"""All kinds of pending jobs, as rows of matrices. The table is kept between cycles, and new kinds are added.

It is exact even if amounts need more than 64 bits; then the matrices hold Python's integers. Only resource types that
nodes have or queues limit have a column. Users may name thousands of other types, and matrices with all of them would
take gigabytes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import LARGEST, Resources
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray


class _Matrices(NamedTuple):
    """Amounts of kinds, (n_kinds, n_types) each: ``per_node``, ``least`` on ``min_nodes``, ``whole`` on all nodes.

    ``smallest`` (n_types,): the smallest positive amount per node, :data:`.LARGEST` for a type that nobody asks for.
    ``exclusive`` and ``asks_unknown``, bool (n_kinds,): which kinds are exclusive, and which ask for types without a
    column. ``limits_s`` float64 (n_kinds,): time limits.
    """

    per_node: IntArray
    least: IntArray
    whole: IntArray
    smallest: IntArray
    exclusive: BoolArray
    asks_unknown: BoolArray
    limits_s: FloatArray
    largest: int

    def is_like(self, other: _Matrices) -> bool:
        """Whether the other has the same columns, of the same type."""
        return self.per_node.shape[1:] == other.per_node.shape[1:] and self.per_node.dtype == other.per_node.dtype

    def with_more(self, other: _Matrices) -> _Matrices:
        """These kinds, followed by those of ``other``."""
        return _Matrices(
            per_node=np.concatenate([self.per_node, other.per_node]),
            least=np.concatenate([self.least, other.least]),
            whole=np.concatenate([self.whole, other.whole]),
            smallest=np.minimum(self.smallest, other.smallest),
            exclusive=np.concatenate([self.exclusive, other.exclusive]),
            asks_unknown=np.concatenate([self.asks_unknown, other.asks_unknown]),
            limits_s=np.concatenate([self.limits_s, other.limits_s]),
            largest=max(self.largest, other.largest),
        )


class KindTable:
    """Kinds by index; :meth:`add` adds one. Resource types are columns, in the order of their first use.

    ``known``: the types that may have a column. It must contain all types of nodes and of the maxima of queues. None
    means any type.
    """

    def __init__(self, kinds: Iterable[Kind] = (), known: Collection[str] | None = None) -> None:
        self.kinds: list[Kind] = []
        self.amounts: list[Resources] = []
        self.known = known
        self._columns: dict[str, int] = {}
        self._rows: list[list[int]] = []
        self._asks_unknown: list[bool] = []
        self._largest: list[int] = []
        self._made: _Matrices | None = None
        for kind in kinds:
            self.add(kind)

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> Kind:
        return self.kinds[index]

    def add(self, kind: Kind) -> int:
        """Add a kind. Returns its index."""
        asked, known = kind.shape.resources, self.known
        own = asked if known is None else {resource: value for resource, value in asked.items() if resource in known}
        row = [0] * (len(self._columns) + len(own))
        for resource, value in own.items():
            row[self._columns.setdefault(resource, len(self._columns))] = value
        self.kinds.append(kind)
        self.amounts.append({resource: value * kind.shape.nodes for resource, value in own.items()})
        self._rows.append(row[: len(self._columns)])
        self._asks_unknown.append(len(own) < len(asked))
        self._largest.append(max(own.values(), default=0) * kind.shape.nodes)
        return len(self.kinds) - 1

    def _matrices(self) -> _Matrices:
        """The matrices of all kinds.

        New kinds are appended, if the columns are still the same; else all are rebuilt.
        """
        made = self._made
        if made is None or len(made.exclusive) < len(self.kinds):
            n_made = 0 if made is None else len(made.exclusive)
            new = self._matrices_from(n_made)
            if made is not None and not made.is_like(new):
                made, new = None, self._matrices_from(0)
            self._made = made = new if made is None else made.with_more(new)
        return made

    def _matrices_from(self, first: int) -> _Matrices:
        width, shapes = len(self._columns), [kind.shape for kind in self.kinds[first:]]
        largest = max(self._largest[first:], default=0)
        dtype = np.int64 if largest <= LARGEST else object
        rows = np.array([row + [0] * (width - len(row)) for row in self._rows[first:]], dtype=dtype)
        per_node = rows.reshape(len(shapes), width)
        return _Matrices(
            per_node=per_node,
            least=per_node * np.array([[shape.min_nodes] for shape in shapes], dtype=dtype).reshape(-1, 1),
            whole=per_node * np.array([[shape.nodes] for shape in shapes], dtype=dtype).reshape(-1, 1),
            smallest=np.where(per_node > 0, per_node, LARGEST).min(axis=0, initial=LARGEST),
            exclusive=np.array([shape.exclusive for shape in shapes], dtype=bool),
            asks_unknown=np.array(self._asks_unknown[first:], dtype=bool),
            limits_s=np.array([_limit_s(kind) for kind in self.kinds[first:]], dtype=np.float64),
            largest=largest,
        )

    def _most(self, most: Mapping[str, int], without: int) -> IntArray:
        """The amounts in ``most`` as columns. A type that is not in it has the amount ``without``."""
        return np.array([max(most.get(kind, without), 0) for kind in self._columns], dtype=object)

    @property
    def exclusive(self) -> BoolArray:
        """Which kinds take whole nodes; bool (n_kinds,)."""
        return self._matrices().exclusive

    @property
    def limits_s(self) -> FloatArray:
        """The time limit of each kind, float64 (n_kinds,); infinite for a kind without one."""
        return self._matrices().limits_s

    @property
    def n_types(self) -> int:
        """The number of columns."""
        return len(self._columns)

    @property
    def types(self) -> list[str]:
        """The types of the columns."""
        return list(self._columns)

    @property
    def is_exact(self) -> bool:
        """Whether every amount fits into 64 bits, so that the matrices are int64."""
        return self._matrices().largest <= LARGEST

    def most_of(self, kinds: IntArray) -> IntArray:
        """For each type, the largest amount that any of these kinds needs with its ``min_nodes``; (n_types,).

        ``kinds`` int64 (n,), at least one.
        """
        most: IntArray = self._matrices().least[kinds].max(axis=0)
        return most

    def least_asked(self) -> dict[str, int]:
        """For each type with a column, the smallest positive amount that any kind asks of a node."""
        return dict(zip(self._columns, self._matrices().smallest.tolist(), strict=True))

    def summed(self, kinds: IntArray, counts: IntArray) -> Resources:
        """The total amounts of ``counts[i]`` jobs of each ``kinds[i]``, of types with a column; int64 (n,) each."""
        whole = self._matrices().whole[kinds]
        if int(whole.max(initial=0)) * int(counts.sum()) > LARGEST:
            totals = (counts.astype(object)[:, np.newaxis] * whole.astype(object)).sum(axis=0)
        else:
            totals = counts @ whole
        return {kind: int(totals[column]) for kind, column in self._columns.items() if totals[column]}

    def asking_more(self, most: Mapping[str, int], *, has_empty_node: bool) -> BoolArray:
        """Which kinds ask a node for more of any type than ``most``; bool (n_kinds,).

        A type that is not in ``most`` has 0. An exclusive kind asks for an empty node. No node has a type without a
        column, so kinds with such types are among the result.
        """
        made = self._matrices()
        limits = self._most(most, 0)
        found = (made.per_node > limits.astype(made.per_node.dtype)).any(axis=1) | made.asks_unknown
        return np.asarray(found if has_empty_node else found | made.exclusive, dtype=bool)

    def over(self, kinds: IntArray, room: Mapping[str, int]) -> BoolArray:
        """Which of these kinds need more of a type than ``room``, even with their ``min_nodes``; bool (n,)."""
        made = self._matrices()
        limits = self._most(room, LARGEST)
        return np.asarray((made.least[kinds] > limits.astype(made.least.dtype)).any(axis=1), dtype=bool)


def _limit_s(kind: Kind) -> float:
    return math.inf if kind.time_limit_s is None else kind.time_limit_s
