"""Groups of nodes by what they have free, so that kinds without room are recognised without trying them.

On a full cluster, one node often has free cores but no memory, and another one memory but no cores. The largest free
amounts of all nodes together then suggest room that no node has. Nodes are grouped by the resource types of which they
have enough for at least one kind, and each group has largest free amounts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankd.core.model.quantity import LARGEST
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_set import SLOTS
from rankd.core.placement.node_table import NodeTable
from rankd.core.ranking.columns import BoolArray, IntArray

MOST_GROUPS = 16
"""With more groups than this, all nodes are one group: each group costs a comparison with all kinds."""
_MOST_TYPES = 12
"""Sites have fewer types than this; with n of them there are at most 2 ** n groups."""


def largest_by_group(free: IntArray, least: IntArray) -> IntArray:
    """The largest free amounts of each group of nodes; int64 (n_groups, n_types), at least one row.

    ``free`` int64 (n_nodes, n_types). ``least`` int64 (n_types,): the smallest positive amount that any kind asks of a
    node. For each node there is a row that is nowhere less than the node's free amounts.
    """
    smallest = np.iinfo(np.int64).min
    if len(free) and free.shape[1] <= _MOST_TYPES:
        codes = (free >= least) @ (1 << np.arange(free.shape[1], dtype=np.int64))
        groups = np.flatnonzero(np.bincount(codes))
        if len(groups) <= MOST_GROUPS:
            return np.array([free[codes == group].max(axis=0) for group in groups.tolist()])
    largest: IntArray = free.max(axis=0, initial=smallest, keepdims=True)
    return largest


def most_free(free: IntArray, up: BoolArray) -> IntArray:
    """For each column, the most that any node that is up has free, int64 (n_types + 1,); a new array.

    ``free`` int64 (n_nodes, n_types + 1), ``up`` bool (n_nodes,): which nodes are up.
    """
    if len(free) == 1 and up[0]:  # most of the time of a pool of one node would go into the general way
        only: IntArray = free[0].copy()
        return only
    most: IntArray = free[up].max(axis=0, initial=np.iinfo(np.int64).min)
    return most


def largest_free(free: IntArray, table: NodeTable, kinds: KindTable) -> IntArray:
    """As :func:`largest_by_group`, of the nodes that are up, for what kinds ask; int64 (n_groups, n_types + 1).

    ``free`` int64 (n_nodes, n_types + 1): of the table's nodes, now or at another instant.
    """
    if len(free) != 1 or not table.up[0]:
        free = free[table.up]
    if len(free) == 1:
        return free
    asked = kinds.least_asked()
    least = np.array([*(min(asked.get(kind, LARGEST), LARGEST) for kind in table.types), 1], dtype=np.int64)
    return largest_by_group(free, least)


def without_room(largest: IntArray, types: Sequence[str], kinds: KindTable) -> BoolArray | None:
    """The kinds that ask a node for more than each row of ``largest``, bool (n_kinds,). None: no kind.

    ``largest`` int64 (n_groups, n_types + 1): of each of ``types``, and slots.
    """
    found: BoolArray | None = None
    for most in largest.tolist():
        sizes, has_empty_node = dict(zip(types, most, strict=False)), most[-1] >= SLOTS
        if not kinds.asks_more(sizes, has_empty_node=has_empty_node):
            return None
        more = kinds.asking_more(sizes, has_empty_node=has_empty_node)
        found = more if found is None else found & more
    return np.ones(len(kinds), dtype=bool) if found is None else found
