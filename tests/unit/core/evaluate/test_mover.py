"""Who moves, in columns: the same as job by job."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.mover import NO_RANK, Owners, Places, movers, moves_of, owners_of
from rankd.core.evaluate.whatif import by_owner

NAMES = [("physics", "ann"), ("physics", "bob"), ("biology", "ann")]


@st.composite
def two_rankings(draw):
    """Ids, the places before and after (not every job is ranked), and who has each job."""
    n = draw(st.integers(0, 12))
    orders = []
    for _ in range(2):
        order = draw(st.permutations(range(n)))[: draw(st.integers(0, n))]
        ranks = np.zeros(n, dtype=np.int64)
        ranks[order] = np.arange(1, len(order) + 1)
        orders.append(Places(ranks, draw(st.integers(-5, 5)) + np.arange(n, dtype=np.int64)))
    owners = np.array([draw(st.integers(0, 2)) for _ in range(n)], dtype=np.int64)
    return np.arange(n, dtype=np.int64) * 3 + 1, *orders, owners


@given(two_rankings())
def test_the_same_jobs_move_as_if_each_was_compared(found):
    ids, before, after, owners = found
    moved = moves_of(ids, before, after, movers(before, after))
    ranks = {int(job): (int(one), int(other)) for job, one, other in zip(ids, before.ranks, after.ranks, strict=True)}
    assert {move.job for move in moved} == {job for job, (one, other) in ranks.items() if one != other}
    for move in moved:
        one, other = ranks[move.job]
        assert (move.rank_before, move.rank_after) == (one or None, other or None)
        assert move.change == (other - one if NO_RANK not in (one, other) else None)
    then = [move.rank_after for move in moved if move.rank_after is not None]
    assert then == sorted(then)
    assert all(move.rank_after is None for move in moved[len(then) :])

    jobs = [
        JobEntry(id=job, account=NAMES[owner][0], user=NAMES[owner][1])
        for job, owner in zip(ids.tolist(), owners.tolist(), strict=True)
    ] + [JobEntry(id=1000 + number, account="physics", user="bob") for number in range(4)]
    wanted = by_owner(moved, Document(now=0.0, jobs=jobs))
    assert owners_of(before, after, movers(before, after), Owners(owners, NAMES, {1: 4})) == wanted
