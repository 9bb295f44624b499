"""The order of all jobs over queue trees. Trees are written as (path, properties), parents first."""

import numpy as np
import pytest
from builder import NOW, columns, job_row, no_applications, order_jobs

from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.order import Applications, OrderQueue
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN

FENCE = {"priority_policy": "fence"}
DISABLED = {"sort_priority": False}


def ordered(tree, jobs, applications=None, roots=("root",)):
    """Ids in order. ``tree`` maps paths to properties, siblings in order; ``jobs`` are (id, path, priority, …)."""
    ids = {path: place for place, path in enumerate(tree)}
    queues = [
        OrderQueue(
            properties=QueueProperties(**properties),
            is_root=path in roots,
            children=tuple(ids[other] for other in tree if other.rpartition(".")[0] == path),
        )
        for path, properties in tree.items()
    ]
    rows = [job_row(id, queue=ids[path], class_value=priority, **rest) for id, path, priority, rest in map(_full, jobs)]
    table = columns(*rows)
    places = order_jobs(
        table, table.class_values, queues, [ids[root] for root in roots], applications or no_applications()
    )
    return table.ids[places].tolist()


def _full(job):
    id, path, priority, *rest = job
    return id, path, priority, rest[0] if rest else {}


# --- inside a leaf ------------------------------------------------------------------------------------------

LEAF = {"root": {}, "root.a": {}}


@pytest.mark.parametrize("priorities", [(1, 3, 2), (-5, 5, 0), (INT32_MIN, INT32_MAX, 0)])
def test_larger_priorities_go_first(priorities):
    jobs = [(id, "root.a", priority) for id, priority in enumerate(priorities, start=1)]
    assert ordered(LEAF, jobs) == [2, 3, 1]


def test_equal_priorities_go_by_submission_then_by_sequence_number():
    jobs = [
        (1, "root.a", 7, {"submitted_at": NOW + 5}),
        (2, "root.a", 7, {"submitted_at": NOW}),
        (3, "root.a", 7, {"submitted_at": NOW}),
    ]
    assert ordered(LEAF, jobs) == [2, 3, 1]


def test_jobs_that_are_not_eligible_have_no_place():
    assert ordered(LEAF, [(1, "root.a", 9, {"eligible_at": None}), (2, "root.a", 1)]) == [2]


def test_without_jobs_there_is_no_order():
    assert ordered(LEAF, []) == []
    assert ordered(LEAF, [(1, "root.a", 9, {"eligible_at": None})]) == []


def test_a_disabled_leaf_goes_by_submission_whatever_the_priorities():
    jobs = [(1, "root.a", 1, {"submitted_at": NOW + 1}), (2, "root.a", 9, {"submitted_at": NOW + 2}), (3, "root.a", 5)]
    assert ordered({"root": {}, "root.a": DISABLED}, jobs) == [3, 1, 2]


# --- applications -------------------------------------------------------------------------------------------


def applications(created_at, places=None):
    places = range(len(created_at)) if places is None else places
    return Applications(created_at=np.array(created_at, dtype=float), id_places=np.array(places, dtype=np.int64))


def test_older_applications_go_first_among_equal_priorities_whenever_their_jobs_came():
    jobs = [
        (1, "root.a", 5, {"application": 1, "submitted_at": NOW}),
        (2, "root.a", 5, {"application": 0, "submitted_at": NOW + 9}),
    ]
    assert ordered(LEAF, jobs, applications([NOW - 2, NOW - 1])) == [2, 1]


def test_priority_goes_before_the_age_of_an_application():
    jobs = [(1, "root.a", 5, {"application": 1}), (2, "root.a", 4, {"application": 0})]
    assert ordered(LEAF, jobs, applications([NOW - 2, NOW - 1])) == [1, 2]


def test_in_a_disabled_leaf_an_applications_jobs_stay_together_by_priority_among_themselves():
    jobs = [
        (1, "root.a", 1, {"application": 0}),
        (2, "root.a", 9, {"application": 1}),
        (3, "root.a", 5, {"application": 0}),
        (4, "root.a", 3, {"application": 0, "submitted_at": NOW - 50}),
    ]
    assert ordered({"root": {}, "root.a": DISABLED}, jobs, applications([NOW - 2, NOW - 1])) == [3, 4, 1, 2]


def test_a_job_of_its_own_stands_at_its_submission_and_before_a_named_application_of_that_instant():
    jobs = [
        (1, "root.a", 5, {"application": 0}),
        (2, "root.a", 5, {"submitted_at": NOW}),
        (3, "root.a", 5, {"submitted_at": NOW + 2}),
        (4, "root.a", 5, {"application": 1}),
    ]
    assert ordered(LEAF, jobs, applications([NOW, NOW + 1])) == [2, 1, 4, 3]


def test_applications_of_one_instant_go_by_their_ids():
    jobs = [(1, "root.a", 5, {"application": 0}), (2, "root.a", 5, {"application": 1})]
    assert ordered(LEAF, jobs, applications([NOW, NOW], places=[1, 0])) == [2, 1]


# --- between queues -----------------------------------------------------------------------------------------

TWO = {"root": {}, "root.a": {}, "root.b": {}}


def test_without_fences_priorities_count_across_the_whole_tree():
    tree = {"root": {}, "root.a": {}, "root.a.x": {}, "root.a.y": {}, "root.b": {}}
    jobs = [(1, "root.a.x", 1), (2, "root.a.y", 4), (3, "root.b", 3), (4, "root.a.x", 2)]
    assert ordered(tree, jobs) == [2, 3, 4, 1]


def test_equal_priorities_keep_the_parents_order_of_its_children():
    assert ordered(TWO, [(1, "root.b", 5), (2, "root.a", 5), (3, "root.b", 5), (4, "root.a", 5)]) == [2, 4, 1, 3]


@pytest.mark.parametrize(("offset", "order"), [(0, [2, 1]), (4, [2, 1]), (5, [1, 2]), (6, [1, 2]), (-1, [2, 1])])
def test_an_offset_moves_a_queue_against_its_siblings(offset, order):
    tree = {"root": {}, "root.a": {"priority_offset": offset}, "root.b": {}}
    assert ordered(tree, [(1, "root.a", 5), (2, "root.b", 10)]) == order


def test_offsets_add_up_on_the_way_to_the_top():
    tree = {
        "root": {},
        "root.b": {},
        "root.a": {"priority_offset": 3},
        "root.a.x": {"priority_offset": 3},
        "root.a.y": {"priority_offset": -20},
    }
    assert ordered(tree, [(1, "root.a.x", 5), (2, "root.b", 10), (3, "root.a.y", 12)]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("offset", "priority", "order"), [(INT32_MAX, 5, [1, 2]), (INT32_MIN, -5, [2, 1]), (INT32_MAX, INT32_MAX, [1, 2])]
)
def test_an_offset_saturates_and_does_not_wrap(offset, priority, order):
    tree = {"root": {}, "root.a": {"priority_offset": offset}, "root.b": {}}
    assert ordered(tree, [(1, "root.a", priority), (2, "root.b", 0)]) == order


def test_a_clamped_queue_ties_with_one_that_is_at_the_limit_by_itself():
    tree = {"root": {}, "root.a": {}, "root.b": {"priority_offset": INT32_MAX}}
    assert ordered(tree, [(1, "root.b", 5), (2, "root.a", INT32_MAX)]) == [2, 1]


def test_a_fenced_queue_shows_0_whatever_is_in_it():
    tree = {"root": {}, "root.a": FENCE, "root.b": {}}
    jobs = [(1, "root.a", 1_000_000), (2, "root.b", 1), (3, "root.b", -1), (4, "root.a", -1_000_000)]
    assert ordered(tree, jobs) == [2, 1, 4, 3]


def test_a_fence_with_an_offset_shows_the_offset():
    tree = {"root": {}, "root.a": {**FENCE, "priority_offset": 100}, "root.b": {}}
    assert ordered(tree, [(1, "root.a", -5), (2, "root.b", 101), (3, "root.b", 99)]) == [2, 1, 3]


def test_inside_a_fence_priorities_count():
    tree = {"root": {}, "root.f": FENCE, "root.f.x": {}, "root.f.y": {}}
    assert ordered(tree, [(1, "root.f.x", 1), (2, "root.f.y", 3), (3, "root.f.x", 2)]) == [2, 3, 1]


@pytest.mark.parametrize("properties", [FENCE, {"priority_offset": -1000}, {**FENCE, "priority_offset": 50}])
def test_policy_and_offset_of_root_have_no_effect(properties):
    tree = {"root": properties, "root.a": {}, "root.b": {}}
    assert ordered(tree, [(1, "root.a", 1), (2, "root.b", 2)]) == [2, 1]


def test_a_priority_of_int32_min_is_a_priority():
    tree = {"root": {}, "root.a": {}, "root.empty": {}}
    assert ordered(tree, [(1, "root.a", INT32_MIN)]) == [1]


# --- nested fences: "Priority Scheduling" of YuniKorn 1.3, section "Priority fencing" -------------------------
# tenant 1 (fenced) holds queue A (fenced) and queue B; tenant 2 (fenced) holds queue 1 and queue 2; the system
# queue is not fenced.

TENANTS = {
    "root": {},
    "root.system": {},
    "root.tenant1": FENCE,
    "root.tenant1.A": FENCE,
    "root.tenant1.B": {},
    "root.tenant2": FENCE,
    "root.tenant2.1": {},
    "root.tenant2.2": {},
}


def test_tasks_in_a_nested_fence_show_as_default_and_those_beside_it_may_go_before_them():
    jobs = [(1, "root.tenant1.A", 900), (2, "root.tenant1.B", 1), (3, "root.tenant1.B", -1)]
    assert ordered(TENANTS, jobs) == [2, 1, 3]


def test_between_unfenced_siblings_priorities_are_fully_visible():
    jobs = [(1, "root.tenant2.1", 5), (2, "root.tenant2.2", 7), (3, "root.tenant2.1", 6), (4, "root.tenant2.2", 4)]
    assert ordered(TENANTS, jobs) == [2, 3, 1, 4]


def test_no_tenants_task_outranks_the_system_queue_and_a_system_task_outranks_all():
    jobs = [
        (1, "root.tenant1.A", 1_000_000_000),
        (2, "root.tenant2.1", 1_000_000_000),
        (3, "root.system", 1),
        (4, "root.system", 0),
    ]
    assert ordered(TENANTS, jobs)[:2] == [3, 4]


def test_tenants_do_not_see_each_others_priorities():
    low, high = (1, "root.tenant1.B", -1000), (2, "root.tenant2.1", 1000)
    assert ordered(TENANTS, [low, high]) == [1, 2]


# --- disabled -----------------------------------------------------------------------------------------------


def test_under_a_disabled_parent_its_own_order_of_its_children_decides():
    tree = {"root": DISABLED, "root.a": {}, "root.b": {"priority_offset": 1_000_000}}
    assert ordered(tree, [(1, "root.b", 99), (2, "root.a", 1), (3, "root.a", 2)]) == [3, 2, 1]


def test_a_disabled_subtree_stands_where_its_best_remaining_job_puts_it():
    # inside d the order is d.x, then d.y; d.y's 9 lifts all of d over b's 5
    tree = {"root": {}, "root.b": {}, "root.d": DISABLED, "root.d.x": {}, "root.d.y": {}}
    jobs = [(1, "root.d.x", 1), (2, "root.d.y", 9), (3, "root.b", 5), (4, "root.d.y", 2)]
    assert ordered(tree, jobs) == [1, 2, 3, 4]


def test_a_disabled_leaf_stands_where_its_best_remaining_job_puts_it():
    tree = {"root": {}, "root.b": {}, "root.d": DISABLED}
    jobs = [
        (1, "root.d", 1, {"submitted_at": NOW - 3}),
        (2, "root.d", 9, {"submitted_at": NOW - 2}),
        (3, "root.b", 5),
        (4, "root.d", 2, {"submitted_at": NOW - 1}),
    ]
    assert ordered(tree, jobs) == [1, 2, 3, 4]


def test_enabled_counts_again_below_a_disabled_parent():
    tree = {"root": {}, "root.d": DISABLED, "root.d.e": {}, "root.d.e.x": {}, "root.d.e.y": {}}
    assert ordered(tree, [(1, "root.d.e.x", 1), (2, "root.d.e.y", 2)]) == [2, 1]


# --- partitions ---------------------------------------------------------------------------------------------


def test_partitions_merge_by_what_their_roots_show_then_in_their_order():
    tree = {"root": {}, "root.a": {}, "gpu": {}, "gpu.a": {}}
    jobs = [(1, "gpu.a", 5), (2, "root.a", 5), (3, "gpu.a", 9)]
    assert ordered(tree, jobs, roots=("root", "gpu")) == [3, 2, 1]
