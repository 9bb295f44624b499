"""The account tree: root, accounts and users, with their places and shares.

It is immutable: a change makes a new tree, so that a pass and a reader never see half of a change. It does not contain
usage, which changes all the time; that is in :mod:`rankd.core.fairshare.decay`.
:mod:`rankd.core.fairshare.algorithm` computes fair share from both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.errors import ConfigurationError
from rankd.core.fairshare.layout import ROOT_NODE, BoolArray, FloatArray, IntArray, Layout, derive
from rankd.core.fairshare.row_check import account_parents, find_problems
from rankd.core.model.association import ROOT, Association

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NO_ROW = -1


class AccountTree(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A checked tree of n nodes: ``n_accounts`` accounts (node 0 is root), then ``n_users`` users.

    A *user index* counts the user nodes from 0, in the order of their rows: node = n_accounts + user index.
    Arrays that hold one value per association (usage, fair share) are in this order.

    Attributes:
        accounts: names by node; parents before children, sorted by name within a level.
        users: names by user index; a user in several accounts is in it several times.
        parents: int64 (n,), the account above; root has itself.
        depths: int64 (n,), 0 for root.
        shares: float64 (n,), at least 0; 0 for ``shares: parent``, which adds nothing to its siblings' sum.
        is_parent_shares: bool (n,), true for ``shares: parent``.
        priorities: float64 (n,), as configured; the default is 0.
        rows: int64 (n,), the index of the node's association in the list given to :meth:`build`; -1 without one.
        account_levels: a slice of nodes for each depth, root's first.
        layout: arrays computed from the above.
    """

    accounts: tuple[str, ...]
    users: tuple[str, ...]
    parents: IntArray
    depths: IntArray
    shares: FloatArray
    is_parent_shares: BoolArray
    priorities: FloatArray
    rows: IntArray
    account_levels: tuple[slice, ...]
    layout: Layout
    account_nodes: Mapping[str, int]
    user_indices: Mapping[tuple[str, str], int]
    default_accounts: Mapping[str, str]

    @classmethod
    def build(cls, associations: Sequence[Association]) -> AccountTree:
        """The tree of these rows, which may be in any order. Root does not have to be listed.

        The ``usage`` in the row of an account is not read, because the usage of an account is that of its users. The
        default account of a user without ``default`` is the first listed one, as in Slurm.

        Raises:
            ConfigurationError: with every problem of every row.
        """
        problems = find_problems(associations)
        if problems:
            raise ConfigurationError(problems)
        return _Builder(associations).tree()

    @property
    def n_accounts(self) -> int:
        """The number of accounts, with root."""
        return len(self.accounts)

    @property
    def n_users(self) -> int:
        """The number of (account, user) associations: N of the fair-tree ranking."""
        return len(self.users)

    @property
    def is_user(self) -> BoolArray:
        """Which nodes are users, bool (n,)."""
        return np.arange(len(self.parents)) >= self.n_accounts

    def of_users(self, values: FloatArray) -> FloatArray:
        """The part of an array over nodes that is about users, as a view by user index."""
        return values[self.n_accounts :]

    def user_index(self, account: str, user: str) -> int | None:
        """The association's user index; None if there is no such association."""
        return self.user_indices.get((account, user))

    def default_account(self, user: str) -> str | None:
        """The account of the user's jobs that name none. None if the user is in no account."""
        return self.default_accounts.get(user)

    def account_of(self, node: int) -> str:
        """The name of the node's account: the account itself, or the one that the user is in."""
        return self.accounts[node if node < self.n_accounts else self.parents[node]]

    def user_of(self, node: int) -> str | None:
        """The user's name; None for an account."""
        return None if node < self.n_accounts else self.users[node - self.n_accounts]

    def walk(self) -> Iterator[int]:
        """All nodes, depth first: each account, then its users by name, then its sub-accounts by name."""
        children: list[list[int]] = [[] for _ in self.accounts]
        parents = self.parents.tolist()
        by_name = sorted(range(self.n_users), key=self.users.__getitem__, reverse=True)
        # the stack is last in, first out: accounts from the last name to the first, then users in the same way
        for node in [
            *range(self.n_accounts - 1, ROOT_NODE, -1),
            *(self.n_accounts + index for index in by_name),
        ]:
            children[parents[node]].append(node)
        stack = [ROOT_NODE]
        while stack:
            node = stack.pop()
            yield node
            if node < self.n_accounts:
                stack.extend(children[node])


class _Builder:
    """Converts checked rows to arrays."""

    def __init__(self, rows: Sequence[Association]) -> None:
        self._rows = rows
        depths = _account_depths(account_parents(rows))
        self._accounts = sorted(depths, key=lambda name: (depths[name], name))
        self._nodes = {name: node for node, name in enumerate(self._accounts)}
        self._account_rows = {row.account: at for at, row in enumerate(rows) if row.user is None}
        self._user_rows = [at for at, row in enumerate(rows) if row.user is not None]
        self._depths = [depths[name] for name in self._accounts]

    def tree(self) -> AccountTree:
        entries = self._entries()
        parents = np.array(self._parents(), dtype=np.int64)
        is_parent_shares = np.array([row.shares == "parent" for row in entries], dtype=np.bool_)
        shares = np.array([0.0 if row.shares == "parent" else row.shares for row in entries], dtype=np.float64)
        account_levels = _slices(self._depths)
        depths = np.array(self._depths, dtype=np.int64)
        return AccountTree(
            accounts=tuple(self._accounts),
            users=tuple(row.user or "" for row in entries[len(self._accounts) :]),
            parents=parents,
            depths=np.concatenate([depths, depths[parents[len(depths) :]] + 1]),
            shares=shares,
            is_parent_shares=is_parent_shares,
            priorities=np.array([row.priority for row in entries], dtype=np.float64),
            rows=np.array(self._row_numbers(), dtype=np.int64),
            account_levels=account_levels,
            layout=derive(parents, shares, is_parent_shares, account_levels),
            account_nodes=self._nodes,
            user_indices=self._user_indices(),
            default_accounts=self._defaults(),
        )

    def _row_numbers(self) -> list[int]:
        return [self._account_rows.get(name, NO_ROW) for name in self._accounts] + self._user_rows

    def _entries(self) -> list[Association]:
        implied = Association(account=ROOT)
        return [implied if at == NO_ROW else self._rows[at] for at in self._row_numbers()]

    def _parents(self) -> list[int]:
        above = account_parents(self._rows)
        accounts = [self._nodes[above.get(name, ROOT)] for name in self._accounts]
        return accounts + [self._nodes[self._rows[at].account] for at in self._user_rows]

    def _user_indices(self) -> dict[tuple[str, str], int]:
        users = (self._rows[at] for at in self._user_rows)
        return {(row.account, row.user or ""): index for index, row in enumerate(users)}

    def _defaults(self) -> dict[str, str]:
        users = [self._rows[at] for at in self._user_rows]
        # the last entry counts in a dict: from the last listed row to the first, then rows marked as default
        defaults = {row.user or "": row.account for row in reversed(users)}
        return defaults | {row.user or "": row.account for row in users if row.default}


def _account_depths(parents: Mapping[str, str]) -> dict[str, int]:
    """The depth of each account; root has 0. This is a loop, because the tree may be deeper than Python's stack."""
    depths = {ROOT: 0}
    for start in parents:
        path, name = [], start
        while name not in depths:
            path.append(name)
            name = parents[name]
        depths.update((member, depth) for depth, member in enumerate(reversed(path), start=depths[name] + 1))
    return depths


def _slices(depths: Sequence[int]) -> tuple[slice, ...]:
    """One slice for each depth. ``depths`` must ascend."""
    starts = [at for at, depth in enumerate(depths) if not at or depth != depths[at - 1]]
    return tuple(slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(depths)], strict=True))
