"""All kinds of pending jobs, as rows of matrices. The table is kept between cycles, and new kinds are added.

It is exact even if amounts need more than 64 bits; then the matrices hold Python's integers. Only resource types that
nodes have or queues limit have a column. Users may name thousands of other types, and matrices with all of them would
take gigabytes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from rankd.core.model.quantity import LARGEST, Resources
from rankd.core.placement.grown_array import with_room
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

_FEW = 8
"""It takes less time to look at this number of kinds one by one than to compare columns."""


class _Matrices:
    """Amounts of kinds. ``n``: the number of kinds. The arrays have room for more of them; :meth:`put` adds some.

    ``per_node``, ``least`` on ``min_nodes``, ``whole`` on all nodes: (n, n_types) each. ``smallest`` and ``most``: for
    each type, the smallest positive amount per node (:data:`.LARGEST` if nobody asks for it) and the largest one.
    ``exclusive`` and ``asks_unknown``, bool (n,): which kinds are exclusive, and which ask for types without a column.
    ``limits_s`` float64 (n,): time limits. ``any_exclusive``, ``any_unknown``: whether there are such kinds.
    """

    def __init__(self, width: int, *, is_exact: bool) -> None:
        self.n = 0
        self.width = width
        self.is_exact = is_exact
        self.smallest, self.most = [LARGEST] * width, [0] * width
        self.any_exclusive = self.any_unknown = False
        dtype = np.int64 if is_exact else object
        self._per_node = self._least = self._whole = np.empty((0, width), dtype=dtype)
        self._exclusive = self._asks_unknown = np.empty(0, dtype=bool)
        self._limits_s = np.empty(0)
        self._cut()

    def _cut(self) -> None:
        """Cut the arrays to the kinds that there are."""
        n = self.n
        self.per_node, self.least, self.whole = self._per_node[:n], self._least[:n], self._whole[:n]
        self.exclusive, self.asks_unknown = self._exclusive[:n], self._asks_unknown[:n]
        self.limits_s = self._limits_s[:n]

    def put(self, kinds: Sequence[Kind], rows: Sequence[Sequence[int]], asks_unknown: Sequence[bool]) -> None:
        """Add kinds. ``rows``: their amounts per node, one for each column."""
        first, self.n = self.n, self.n + len(kinds)
        self._make_room(self.n)
        new = slice(first, self.n)
        per_node = np.array(rows, dtype=self._per_node.dtype).reshape(len(kinds), self.width)
        counts = [(kind.shape.min_nodes, kind.shape.nodes) for kind in kinds]
        times = np.array(counts, dtype=per_node.dtype).reshape(-1, 2)
        self._per_node[new], self._least[new], self._whole[new] = (
            per_node,
            per_node * times[:, :1],
            per_node * times[:, 1:],
        )
        exclusive = [kind.shape.exclusive for kind in kinds]
        self._exclusive[new], self._asks_unknown[new] = exclusive, asks_unknown
        self.any_exclusive |= any(exclusive)
        self.any_unknown |= any(asks_unknown)
        self._limits_s[new] = [_limit_s(kind) for kind in kinds]
        for column, amounts in enumerate(zip(*rows, strict=True)):
            self.smallest[column] = min(
                self.smallest[column], *(amount if amount > 0 else LARGEST for amount in amounts)
            )
            self.most[column] = max(self.most[column], *amounts)
        self._cut()

    def _make_room(self, n: int) -> None:
        """Make room for ``n`` kinds."""
        self._per_node = with_room(self._per_node, n, "F")  # compared column by column
        self._least, self._whole = with_room(self._least, n), with_room(self._whole, n)
        self._exclusive, self._asks_unknown = with_room(self._exclusive, n), with_room(self._asks_unknown, n)
        self._limits_s = with_room(self._limits_s, n)


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
        """The matrices of all kinds. New kinds are added to them, unless they need other columns or larger numbers."""
        made, width = self._made, len(self._columns)
        if made is None or made.n < len(self.kinds):
            is_exact = max(self._largest[0 if made is None else made.n :], default=0) <= LARGEST
            if made is None or made.width != width or (made.is_exact and not is_exact):
                is_exact = max(self._largest, default=0) <= LARGEST
                made = self._made = _Matrices(width, is_exact=is_exact)
            first = made.n
            rows = [row + [0] * (width - len(row)) for row in self._rows[first:]]
            made.put(self.kinds[first:], rows, self._asks_unknown[first:])
        return made

    @property
    def exclusive(self) -> BoolArray:
        """Which kinds take whole nodes; bool (n_kinds,)."""
        return self._matrices().exclusive

    @property
    def any_exclusive(self) -> bool:
        """Whether any kind is exclusive."""
        return self._matrices().any_exclusive

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
        return self._matrices().is_exact

    def most_of(self, kinds: IntArray) -> IntArray:
        """For each type, the largest amount that any of these kinds needs with its ``min_nodes``; (n_types,).

        ``kinds`` int64 (n,), at least one.
        """
        most: IntArray = self._matrices().least[kinds].max(axis=0)
        return most

    def least_asked(self) -> dict[str, int]:
        """For each type with a column, the smallest positive amount that any kind asks of a node."""
        return dict(zip(self._columns, self._matrices().smallest, strict=True))

    def summed(self, kinds: IntArray, counts: IntArray) -> Resources:
        """The total amounts of ``counts[i]`` jobs of each ``kinds[i]``, of types with a column; int64 (n,) each."""
        whole = self._matrices().whole[kinds]
        if int(whole.max(initial=0)) * int(counts.sum()) > LARGEST:
            totals = (counts.astype(object)[:, np.newaxis] * whole.astype(object)).sum(axis=0)
        else:
            totals = counts @ whole
        return {kind: int(totals[column]) for kind, column in self._columns.items() if totals[column]}

    def asks_more(self, most: Mapping[str, int], *, has_empty_node: bool) -> bool:
        """Whether :meth:`asking_more` finds any kind. It does not look at each of them."""
        made = self._matrices()
        if made.any_unknown or (made.any_exclusive and not has_empty_node):
            return True
        return any(max(most.get(kind, 0), 0) < made.most[column] for column, kind in enumerate(self._columns))

    def asking_more(self, most: Mapping[str, int], *, has_empty_node: bool) -> BoolArray:
        """Which kinds ask a node for more of any type than ``most``; bool (n_kinds,).

        A type that is not in ``most`` has 0. An exclusive kind asks for an empty node. No node has a type without a
        column, so kinds with such types are among the result.
        """
        made = self._matrices()
        found: BoolArray = made.asks_unknown.copy() if has_empty_node else made.asks_unknown | made.exclusive
        for column, kind in enumerate(self._columns):
            limit = max(most.get(kind, 0), 0)
            if limit < made.most[column]:
                found |= made.per_node[:, column] > limit
        return found

    def any_within(self, kinds: IntArray, most: Mapping[str, int]) -> bool:
        """Whether any of these kinds, int64 (n,), asks a node for no more of any type than ``most``."""
        if len(kinds) <= _FEW:
            return any(self._is_within(kind, most) for kind in kinds.tolist())
        made = self._matrices()
        fits = ~made.asks_unknown[kinds]
        for column, kind in enumerate(self._columns):
            limit = max(most.get(kind, 0), 0)
            if limit < made.most[column]:
                fits &= made.per_node[kinds, column] <= limit
        return bool(fits.any())

    def any_between(self, kinds: IntArray, less: Mapping[str, int], most: Mapping[str, int]) -> bool:
        """Whether any of these kinds, int64 (n,), is within ``most``, as in :meth:`any_within`, but not in ``less``."""
        made = self._matrices()
        found, before = ~made.asks_unknown[kinds], np.ones(len(kinds), dtype=bool)
        for column, kind in enumerate(self._columns):
            asked = made.per_node[kinds, column]
            found &= asked <= max(most.get(kind, 0), 0)
            before &= asked <= max(less.get(kind, 0), 0)
        return bool((found & ~before).any())

    def _is_within(self, kind: int, most: Mapping[str, int]) -> bool:
        if self._asks_unknown[kind]:
            return False
        asked = zip(self._columns, self._rows[kind], strict=False)  # it asks for none of the types that came later
        return all(amount <= max(most.get(resource, 0), 0) for resource, amount in asked)

    def over(self, kinds: IntArray, room: Mapping[str, int]) -> BoolArray:
        """Which of these kinds need more of a type than ``room``, even with their ``min_nodes``; bool (n,)."""
        made = self._matrices()
        limits = [max(room.get(kind, LARGEST), 0) for kind in self._columns]
        return np.asarray((made.least[kinds] > np.array(limits, dtype=made.least.dtype)).any(axis=1), dtype=bool)


def _limit_s(kind: Kind) -> float:
    return math.inf if kind.time_limit_s is None else kind.time_limit_s
