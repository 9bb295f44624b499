"""The fair-tree walk node by node, for trees with many levels of few nodes, such as a chain of thousands of accounts.

The result is the same as that of :mod:`rankd.core.fairshare.fair_tree`, bit for bit. There, each level costs several
calls of numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankd.core.fairshare.layout import ROOT_NODE, FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankd.core.fairshare.tree import AccountTree

TIE_TOLERANCE = 2.0**-52


class _Group(NamedTuple):
    """Nodes that are ranked as one set.

    ``start``: the number of users ranked before them. ``first_rank``: the number of users before their first run. It is
    smaller than ``start`` if that run continues a run of users tied with the nodes' accounts.
    """

    nodes: list[int]
    start: int
    first_rank: int


def users_ahead_one_by_one(tree: AccountTree, level_fairshare: FloatArray) -> IntArray:
    """The number of users before each user's run, int64 (n_users,). O(n log n), in Python."""
    values, counts = level_fairshare.tolist(), tree.layout.user_counts.tolist()
    children = _children(tree)
    ahead = [0] * len(values)
    groups = [_Group(children[ROOT_NODE], 0, 0)]
    while groups:
        group = groups.pop()
        start, rank = group.start, group.first_rank
        for run in _runs(group.nodes, values):
            users = [node for node in run if node >= tree.n_accounts]
            for user in users:
                ahead[user] = rank
            below = [child for node in run if node < tree.n_accounts for child in children[node]]
            if below:
                groups.append(_Group(below, start + len(users), rank))
            start += sum(counts[node] for node in run)
            rank = start
    return np.array(ahead[tree.n_accounts :], dtype=np.int64)


def _children(tree: AccountTree) -> list[list[int]]:
    """By account: its children in the share tree that have users."""
    children: list[list[int]] = [[] for _ in tree.accounts]
    parents = tree.layout.share_parents.tolist()
    for level in tree.layout.ranked_levels:
        for node in level.tolist():
            children[parents[node]].append(node)
    return children


def _runs(nodes: list[int], values: list[float]) -> Iterator[list[int]]:
    """The nodes by descending value, in runs of tied ones. Each node is compared with the first of its run."""
    run: list[int] = []
    for node in sorted(nodes, key=values.__getitem__, reverse=True):
        if run and not _tied(values[run[0]], values[node]):
            yield run
            run = []
        run.append(node)
    if run:
        yield run


def _tied(first: float, value: float) -> bool:
    """Whether |a - b| <= 2^-52 * max(|a|, |b|, 1), for a >= b >= 0. +inf ties only with +inf."""
    return first == value or (first != np.inf and first - value <= TIE_TOLERANCE * max(first, 1.0))
