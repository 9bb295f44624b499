"""Queue trees as flat records."""

from builder import APPLICATION_SORTS, leaf, parent, views

from rankd.core.model.queue import Limit, Partition
from rankd.core.ranking.queue_view import queue_views, roll_up

LIMIT = Limit(users=("*",), maxapplications=3)
TREE = parent("root", parent("root.a", leaf("root.a.X", max={"vcore": 9}), max={"vcore": 5}), leaf("root.b"))
IDS = {("default", path): place for place, path in enumerate(["root", "root.a", "root.a.x", "root.b"])}


def flat(**fields):
    partition = Partition(root=TREE, **fields)
    return {view.path: view for view in queue_views(partition, IDS, {"vcore": 7, "gpu": 1}, APPLICATION_SORTS)}


def test_parents_stand_before_their_children_and_are_named_by_id():
    found = flat()
    assert list(found) == ["root", "root.a", "root.a.X", "root.b"]
    assert [view.parent for view in found.values()] == [None, 0, 1, 0]


def test_the_effective_maximum_is_the_least_on_the_path_and_never_more_than_the_nodes_have():
    found = flat()
    assert found["root.a.X"].effective_max == {"vcore": 5, "gpu": 1}
    assert found["root.a.X"].maximum == {"vcore": 9}
    assert found["root.b"].effective_max == {"vcore": 7, "gpu": 1}


def test_the_partitions_limits_are_the_roots():
    assert flat(limits=(LIMIT,))["root"].limits == (LIMIT,)
    assert flat()["root"].limits == ()


def test_only_leaves_have_a_sorting_policy():
    assert [path for path, view in flat().items() if view.application_sort is not None] == ["root.a.X", "root.b"]


def test_amounts_of_leaves_are_added_to_every_queue_above_them():
    queues = views(("root", {}), ("root.a", {}), ("root.a.x", {}), ("root.b", {}))
    assert roll_up({2: {"vcore": 2}, 3: {"vcore": 1, "gpu": 1}}, queues) == {
        0: {"vcore": 3, "gpu": 1}, 1: {"vcore": 2}, 2: {"vcore": 2}, 3: {"vcore": 1, "gpu": 1},
    }  # fmt: skip
