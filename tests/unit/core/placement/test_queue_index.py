"""What follows from a partition's queues alone."""

from builder import views

from rankd.core.model.queue import Limit
from rankd.core.placement.queue_index import QueueIndex


def index(*specs):
    return QueueIndex(views(*specs))


def test_levels_hold_every_queue_but_the_root_once_the_upper_ones_first():
    found = index(("root", {}), ("root.a", {}), ("root.a.x", {}), ("root.b", {}))
    assert [level.tolist() for level in found.levels] == [[1, 3], [2]]
    assert [view.path for view in found.path(2)] == ["root.a.x", "root.a", "root"]


def test_a_limit_makes_its_queue_and_all_below_it_not_plain():
    found = index(("root", {}), ("root.a", {"limits": (Limit(users=("*",)),)}), ("root.a.x", {}), ("root.b", {}))
    assert found.is_plain.tolist() == [True, False, False, True]
    assert found.has_tenants
    assert not index(("root", {}), ("root.a", {})).has_tenants
    assert index(("root", {"maxapplications": 1})).has_tenants


def test_a_leaf_stays_where_its_priority_counts_above_a_parent_that_does_not_go_by_it():
    kept = index(("root", {}), ("root.a", {"sort_priority": False}), ("root.a.x", {}), ("root.b", {}))
    assert kept.stay == {2}
    fenced = index(
        ("root", {}), ("root.a", {"sort_priority": False, "priority_policy": "fence"}), ("root.a.x", {}), ("root.b", {})
    )
    assert fenced.stay == frozenset()
