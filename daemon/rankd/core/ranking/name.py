"""The names of the groups that jobs refer to by index. Factors that depend on users, accounts or queues use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rankd.core.fairshare.tree import AccountTree
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.queue_view import QueueView

NOBODY = ("", "")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Names by the indices in the columns of jobs. An index without a group has an empty name.

    ``associations``: (account, user). ``queues``: whole paths. Two partitions may have queues of the same path.
    """

    associations: Sequence[tuple[str, str]] = ()
    qos: Sequence[str] = ()
    queues: Sequence[str] = ()
    partitions: Sequence[str] = ()

    def for_queues(self, size: int) -> Names:
        """The names for ``size`` queues. Queues that are no longer configured, but have jobs, get an empty name."""
        lacking = size - len(self.queues)
        return msgspec.structs.replace(self, queues=(*self.queues, *[""] * lacking)) if lacking > 0 else self


def association_names(tree: AccountTree, association_ids: IntArray) -> tuple[tuple[str, str], ...]:
    """(account, user) by association id. ``association_ids`` int64 (n_users,) is by the tree's user index."""
    found = [NOBODY] * (int(association_ids.max(initial=-1)) + 1)
    parents = tree.parents[tree.n_accounts :].tolist()
    for user, parent, id_ in zip(tree.users, parents, association_ids.tolist(), strict=True):
        found[id_] = (tree.accounts[parent], user)
    return tuple(found)


def queue_names(partitions: Iterable[Sequence[QueueView]]) -> tuple[str, ...]:
    """Paths by queue id."""
    return by_index((view.path, view.id) for views in partitions for view in views)


def by_index(named: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Names by their indices."""
    pairs = list(named)
    found = [""] * (max((index for _, index in pairs), default=-1) + 1)
    for name, index in pairs:
        found[index] = name
    return tuple(found)
