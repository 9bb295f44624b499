"""All kinds of jobs that are pending, as rows of matrices; kept from cycle to cycle, and extended by new kinds.

Exact also where amounts need more than 64 bits: then the matrices hold Python's integers. Only resource types that
nodes offer or queues limit have a column: users may have named thousands of others, and matrices of all of them would
take gigabytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import LARGEST, Resources
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import BoolArray, IntArray


class _Matrices(NamedTuple):
    """What a node, the fewest nodes and all nodes give a job, (n_kinds, n_types) each.

    Bool (n_kinds,): which kinds are exclusive, and which ask for types without a column.
    """

    per_node: IntArray
    least: IntArray
    whole: IntArray
    exclusive: BoolArray
    asks_unknown: BoolArray
    largest: int

    def is_like(self, other: _Matrices) -> bool:
        """Whether the other has the same columns, of the same type."""
        return self.per_node.shape[1:] == other.per_node.shape[1:] and self.per_node.dtype == other.per_node.dtype

    def with_more(self, other: _Matrices) -> _Matrices:
        """The other's kinds behind these."""
        return _Matrices(
            per_node=np.concatenate([self.per_node, other.per_node]),
            least=np.concatenate([self.least, other.least]),
            whole=np.concatenate([self.whole, other.whole]),
            exclusive=np.concatenate([self.exclusive, other.exclusive]),
            asks_unknown=np.concatenate([self.asks_unknown, other.asks_unknown]),
            largest=max(self.largest, other.largest),
        )


class KindTable:
    """Kinds by index; :meth:`add` makes one. Resource types are columns, in the order in which they came up.

    ``known``: the types that may have a column, at least those of all nodes and of the queues' maxima; None: any.
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
        """One more; its index."""
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
        """Of all kinds; those of new ones are put behind the others as long as these stay as they are."""
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
            exclusive=np.array([shape.exclusive for shape in shapes], dtype=bool),
            asks_unknown=np.array(self._asks_unknown[first:], dtype=bool),
            largest=largest,
        )

    def _most(self, most: Mapping[str, int], without: int) -> IntArray:
        """Amounts in the columns; of types that are not named so much as is given."""
        return np.array([max(most.get(kind, without), 0) for kind in self._columns], dtype=object)

    @property
    def exclusive(self) -> BoolArray:
        """Which kinds take nodes whole; bool (n_kinds,)."""
        return self._matrices().exclusive

    @property
    def n_types(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    @property
    def types(self) -> list[str]:
        """The types of the columns."""
        return list(self._columns)

    @property
    def is_exact(self) -> bool:
        """Whether 64 bits hold every amount, so that matrices are of int64."""
        return self._matrices().largest <= LARGEST

    def most_of(self, kinds: IntArray) -> IntArray:
        """The most of each type that any of these kinds, at least one, needs with the fewest nodes; (n_types,)."""
        most: IntArray = self._matrices().least[kinds].max(axis=0)
        return most

    def summed(self, kinds: IntArray, counts: IntArray) -> Resources:
        """What so many jobs of each of these kinds ask for in all, of types with a column; int64 (n,) each."""
        whole = self._matrices().whole[kinds]
        if int(whole.max(initial=0)) * int(counts.sum()) > LARGEST:
            totals = (counts.astype(object)[:, np.newaxis] * whole.astype(object)).sum(axis=0)
        else:
            totals = counts @ whole
        return {kind: int(totals[column]) for kind, column in self._columns.items() if totals[column]}

    def asking_more(self, most: Mapping[str, int], *, has_empty_node: bool) -> BoolArray:
        """Which kinds ask a node for more than this of anything (types left out: 0); bool (n_kinds,).

        Exclusive ones ask for an empty node. No node has anything of a type without a column.
        """
        made = self._matrices()
        limits = self._most(most, 0)
        found = (made.per_node > limits.astype(made.per_node.dtype)).any(axis=1) | made.asks_unknown
        return np.asarray(found if has_empty_node else found | made.exclusive, dtype=bool)

    def over(self, kinds: IntArray, room: Mapping[str, int]) -> BoolArray:
        """Which of these kinds need more than there is room of a type for, with the fewest nodes; bool (n,)."""
        made = self._matrices()
        limits = self._most(room, LARGEST)
        return np.asarray((made.least[kinds] > limits.astype(made.least.dtype)).any(axis=1), dtype=bool)
