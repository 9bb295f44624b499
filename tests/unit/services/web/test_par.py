"""When a user is back at par agrees with the fair share of the ranking: decay and the fair tree say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.fairshare.decay import decay
from rankd.core.fairshare.fair_tree import fair_tree
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.services.web.par import HEIGHT, WIDTH, outlook, seconds_to_par

HALF_LIFE_S = 7 * 86_400.0
AMOUNT = st.floats(1.0, 1e9)


def level(own, others, shares, elapsed_s):
    """The level of a user whose use has decayed, and whose one sibling uses as much as decays."""
    rows = [
        Association(account="a", shares=1),
        Association(account="a", user="me", shares=shares),
        Association(account="a", user="others", shares=1),
    ]
    left = decay(np.array([own]), elapsed_s, HALF_LIFE_S)[0]
    tree = AccountTree.build(rows)
    found = fair_tree(tree, np.array([left, others]))
    return found.level_fairshare[tree.n_accounts]


@given(AMOUNT, AMOUNT, st.integers(1, 100))
def test_at_par_the_ranking_gives_the_level_1(own, others, shares):
    seconds = seconds_to_par(own, others, shares / (shares + 1), HALF_LIFE_S)
    if seconds:
        assert level(own, others, shares, seconds) == pytest.approx(1.0)
        assert level(own, others, shares, seconds / 2) < 1.0
    else:
        assert level(own, others, shares, 0.0) >= 1.0 - 1e-9


@given(AMOUNT, AMOUNT, st.integers(1, 100))
def test_the_curve_meets_the_share_where_the_mark_is(own, others, shares):
    ahead = outlook(own, others, shares / (shares + 1), HALF_LIFE_S)
    points = [tuple(map(float, part[1:].split(","))) for part in ahead.path.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert [y for _, y in points] == sorted(y for _, y in points)  # it only falls
    if ahead.mark is not None:
        before = [y for x, y in points if x < ahead.mark - 0.1]
        after = [y for x, y in points if x > ahead.mark + 0.1]
        assert max(before, default=ahead.level) <= ahead.level + 0.2
        assert min(after) >= ahead.level - 0.2


def test_who_never_gets_there_by_waiting_is_told():
    assert seconds_to_par(10.0, 0.0, 0.5, HALF_LIFE_S) is None  # nobody else uses the account
    assert seconds_to_par(10.0, 1.0, 0.5, None) is None  # use never fades
    assert seconds_to_par(0.0, 0.0, 0.5, HALF_LIFE_S) == 0.0
    assert seconds_to_par(10.0, 1.0, 0.0, HALF_LIFE_S) is None  # no share at all
