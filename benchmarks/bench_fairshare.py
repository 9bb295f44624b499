"""Fair share of all associations at once: both algorithms on wide and deep account trees.

`build` makes the tree from its rows, which happens when the configuration changes. The algorithms run in every pass.
`copy` moves the arrays that they read and write once: the time that the machine needs to touch these bytes at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import report

from rankd.core.fairshare.classic import classic
from rankd.core.fairshare.fair_tree import fair_tree
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association

REPEATS = 5


def wide(users: int, accounts: int, rng: np.random.Generator) -> list[Association]:
    """Accounts at random places of the tree, with users spread over them evenly."""
    above = [None if i < 20 else f"a{rng.integers(0, i)}" for i in range(accounts)]
    rows = [Association(account=f"a{i}", parent=above[i], shares=float(rng.integers(1, 20))) for i in range(accounts)]
    return rows + [Association(account=f"a{i % accounts}", user=f"u{i}") for i in range(users)]


def chain(users: int, accounts: int) -> list[Association]:
    """A chain of accounts, each in the one before."""
    rows = [Association(account=f"a{i}", parent=f"a{i - 1}" if i else None) for i in range(accounts)]
    return rows + [Association(account=f"a{i % accounts}", user=f"u{i}", shares=1.0 + i % 3) for i in range(users)]


def milliseconds(action: Callable[[], object]) -> float:
    """The shortest time of some runs."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def measured(name: str, rows: list[Association], rng: np.random.Generator) -> dict[str, Any]:
    begun = time.perf_counter()
    tree = AccountTree.build(rows)
    build_ms = (time.perf_counter() - begun) * 1000
    usage = np.where(rng.random(tree.n_users) < 0.2, 0.0, rng.lognormal(10, 3, tree.n_users))
    arrays = [tree.shares, tree.parents, tree.layout.share_parents, tree.layout.user_counts, usage]
    arrays += [tree.layout.sibling_shares, *(np.zeros(len(tree.parents)) for _ in range(4))]
    return {
        "tree": name,
        "users": tree.n_users,
        "accounts": tree.n_accounts,
        "levels": len(tree.account_levels),
        "build_ms": round(build_ms, 1),
        "fair_tree_ms": round(milliseconds(lambda: fair_tree(tree, usage)), 2),
        "classic_ms": round(milliseconds(lambda: classic(tree, usage)), 2),
        "copy_ms": round(milliseconds(lambda: [array.copy() for array in arrays]), 2),
    }


def main() -> None:
    rng = np.random.default_rng(1)
    rows = [
        measured("wide", wide(100_000, 2_000, rng), rng),
        measured("wide", wide(1_000_000, 20_000, rng), rng),
        measured("chain", chain(100_000, 1_000), rng),
        measured("chain", chain(50_000, 50_000), rng),
    ]
    report("fairshare", f"the shortest of {REPEATS} runs, usage log-normal, a fifth without any", rows)


if __name__ == "__main__":
    main()
