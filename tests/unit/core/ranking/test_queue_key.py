import pytest

from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN
from rankd.core.ranking.queue_key import effective_max, fair_share, lifted_priority, pending_weight, sort_key


@pytest.mark.parametrize(
    ("best", "policy", "offset", "shown"),
    [
        (5, "default", 0, 5),
        (5, "default", -7, -2),
        (INT32_MAX, "default", 1, INT32_MAX),
        (INT32_MIN, "default", -1, INT32_MIN),
        (INT32_MIN, "default", INT32_MIN, INT32_MIN),
        (5, "fence", 0, 0),
        (5, "fence", 30, 30),
        (INT32_MIN, "default", 0, INT32_MIN),
        (None, "default", 10, None),
        (None, "fence", 10, None),
    ],
)
def test_a_queue_shows_its_best_priority_with_offset_or_its_fence_and_nothing_without_jobs(best, policy, offset, shown):
    assert lifted_priority(best, QueueProperties(priority_policy=policy, priority_offset=offset)) == shown


@pytest.mark.parametrize(
    ("used", "guaranteed", "maximum", "share"),
    [
        ({}, {"vcore": 10}, {"vcore": 10}, 0.0),
        ({"vcore": 0}, {"vcore": 0}, {}, 0.0),
        ({"vcore": 5}, {"vcore": 10}, {"vcore": 100}, 0.5),  # guaranteed before the maximum
        ({"vcore": 5}, {}, {"vcore": 100}, 0.05),
        ({"vcore": 5}, {"memory": 1}, {"vcore": 100}, 0.05),  # type by type
        ({"vcore": 5, "memory": 30}, {"vcore": 10}, {"memory": 40}, 0.75),  # the largest counts
        ({"vcore": 5}, {"vcore": 0}, {"vcore": 100}, 1.0),  # a denominator of 0, and something used
        ({"gpu": 5}, {}, {}, 0.0),  # a type without either is skipped
        ({"gpu": 5, "vcore": 1}, {}, {"vcore": 4}, 0.25),
        ({"vcore": 15}, {"vcore": 10}, {}, 1.5),  # over its guarantee
    ],
)
def test_fair_share_is_the_largest_part_used_of_the_guarantee_else_of_the_maximum(used, guaranteed, maximum, share):
    assert fair_share(used, guaranteed, maximum) == share


@pytest.mark.parametrize(
    ("pending", "total", "weight"),
    [
        ({}, {"vcore": 10}, 0),
        ({"vcore": 5}, {"vcore": 10}, 0.5),
        ({"vcore": 5, "memory": 3}, {"vcore": 10, "memory": 4}, 1.25),
        ({"vcore": 5, "gpu": 9}, {"vcore": 10}, 0.5),
        ({"vcore": 5}, {"vcore": 0}, 0),
        ({"vcore": 30}, {"vcore": 10}, 3.0),
    ],
)
def test_pending_is_summed_as_parts_of_the_total_and_types_without_total_are_left_out(pending, total, weight):
    assert pending_weight(pending, total) == weight


def test_pending_does_not_depend_on_the_order_of_its_types():
    amounts = {"a": 1, "b": 3, "c": 7, "d": 11}
    total = dict.fromkeys(amounts, 10)
    weights = {pending_weight(dict(reversed(list(amounts.items()))), total), pending_weight(amounts, total)}
    assert len(weights) == 1


@pytest.mark.parametrize(
    ("maxima", "total", "least"),
    [
        ([], {"vcore": 10}, {"vcore": 10}),
        ([{"vcore": 4}], {"vcore": 10}, {"vcore": 4}),
        ([{"vcore": 40}], {"vcore": 10}, {"vcore": 10}),
        ([{"vcore": 4}, {}, {"vcore": 6, "gpu": 1}], {"vcore": 10}, {"vcore": 4, "gpu": 1}),
        ([{"vcore": 0}], {"vcore": 10}, {"vcore": 0}),
    ],
)
def test_the_effective_maximum_is_the_least_on_the_path_beginning_with_the_total(maxima, total, least):
    assert effective_max(maxima, total) == least


def test_the_effective_maximum_leaves_the_total_alone():
    total = {"vcore": 10}
    effective_max([{"vcore": 4}], total)
    assert total == {"vcore": 10}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((9, 0.9, 0.1, "b"), (8, 0.1, 0.9, "a")),  # priority descending
        ((8, 0.1, 0.1, "b"), (8, 0.2, 0.9, "a")),  # then the smaller share
        ((8, 0.1, 0.9, "b"), (8, 0.1, 0.1, "a")),  # then more pending
        ((8, 0.1, 0.1, "a"), (8, 0.1, 0.1, "b")),  # then the name
    ],
)
def test_children_go_by_priority_then_share_then_pending_then_name(first, second):
    assert sort_key(*first, by_priority=True) < sort_key(*second, by_priority=True)


def test_disabled_leaves_priority_out():
    assert sort_key(1, 0.1, 0.0, "a", by_priority=False) < sort_key(9, 0.2, 0.0, "a", by_priority=False)
