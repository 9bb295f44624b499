"""Usage from outside beside rankd's own."""

import numpy as np
import pytest

from rankd.core.adapter.input import UsageRow
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.ranking.external_usage import external_usage, with_external
from rankd.core.ranking.ranking import Usage

HALF_LIFE_S = 100.0
TREE = AccountTree.build(
    [Association(account="a"), Association(account="a", user="u"), Association(account="a", user="v")]
)


def own(*amounts, at=0.0):
    none = np.empty(0)
    ids = np.empty(0, dtype=np.int64)
    return Usage(amounts=np.array(amounts), at=np.full(2, at), users=ids, rates=none, since=none, until=none)


def stated(user, usage, at=None, read_at=0.0):
    return external_usage([UsageRow(account="a", user=user, usage=usage, usage_at=at)], read_at, TREE)


def test_both_fade_to_the_same_instant():
    usage = with_external(own(8.0, 1.0), [stated("u", 4.0, at=100.0)], HALF_LIFE_S)
    assert usage.at_instant(200.0, HALF_LIFE_S).tolist() == [8.0 / 4 + 4.0 / 2, 1.0 / 4]


def test_a_statement_of_earlier_is_faded_as_own_usage_is():
    usage = with_external(own(8.0, 1.0, at=100.0), [stated("v", 4.0, at=0.0)], HALF_LIFE_S)
    assert usage.at_instant(100.0, HALF_LIFE_S).tolist() == [8.0, 1.0 + 4.0 / 2]


def test_without_a_time_of_its_own_it_is_of_when_it_was_read():
    usage = with_external(own(0.0, 0.0), [stated("u", 4.0, read_at=300.0)], HALF_LIFE_S)
    assert usage.at_instant(400.0, HALF_LIFE_S).tolist() == [2.0, 0.0]


def test_several_statements_add_up_in_any_order():
    statements = [stated("u", 4.0, at=50.0), stated("u", 2.0, at=150.0)]
    forth = with_external(own(8.0, 1.0), statements, HALF_LIFE_S).at_instant(200.0, HALF_LIFE_S)
    back = with_external(own(8.0, 1.0), statements[::-1], HALF_LIFE_S).at_instant(200.0, HALF_LIFE_S)
    assert forth == pytest.approx(back, rel=1e-12)
    assert forth[0] == pytest.approx(8.0 * 2**-2 + 4.0 * 2**-1.5 + 2.0 * 2**-0.5, rel=1e-12)


def test_who_is_not_in_the_tree_changes_nobody():
    usage = with_external(own(8.0, 1.0), [stated("gone", 4.0, at=900.0)], HALF_LIFE_S)
    assert usage.amounts.tolist() == [8.0, 1.0]
    assert usage.at.tolist() == [0.0, 0.0]


def test_where_nothing_fades_it_is_a_sum():
    usage = with_external(own(8.0, 1.0), [stated("u", 4.0, at=50.0)], None)
    assert usage.at_instant(1e9, None).tolist() == [12.0, 1.0]
