"""Groups of nodes by what they have free, so that kinds without room are recognised without trying them.

On a full cluster, one node often has free cores but no memory, and another one memory but no cores. The largest free
amounts of all nodes together then suggest room that no node has. Nodes are grouped by the resource types of which they
have enough for at least one kind, and each group has largest free amounts of its own.
"""

from __future__ import annotations

import numpy as np

from rankd.core.ranking.columns import IntArray

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
