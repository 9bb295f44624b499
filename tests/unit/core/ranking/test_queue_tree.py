import pytest

from rankd.core.model.queue import Partition, Queue
from rankd.core.ranking.queue_tree import NO_PARENT, QueueTree


def queue(path, *queues, **fields):
    return Queue(name=path.rsplit(".", 1)[-1], path=path, parent=bool(queues), queues=queues, **fields)


TREE = QueueTree.of(
    Partition(
        name="gpu",
        root=queue(
            "root",
            queue(
                "root.Teams",
                queue("root.Teams.red", max={"vcore": 2000, "gpu": 8}),
                queue("root.Teams.blue", guaranteed={"vcore": 1000}),
                max={"vcore": 4000, "memory": 100},
            ),
            queue("root.default", max={"gpu": 0}, maxapplications=3),
        ),
    )
)


def test_queues_stand_in_pre_order():
    assert TREE.partition == "gpu"
    assert TREE.paths == ("root", "root.Teams", "root.Teams.red", "root.Teams.blue", "root.default")
    assert TREE.parents == (NO_PARENT, 0, 1, 1, 0)
    assert TREE.children == ((1, 4), (2, 3), (), (), ())
    assert TREE.is_leaf == (False, False, True, True, True)
    assert TREE.leaves == (2, 3, 4)


def test_parallel_tuples_hold_what_their_queue_holds():
    for index, own in enumerate(TREE.queues):
        assert TREE.properties[index] is own.properties
        assert TREE.paths[index] == own.path
    assert TREE.queues[4].maxapplications == 3


@pytest.mark.parametrize(
    ("path", "index"),
    [
        ("root", 0),
        ("ROOT", 0),
        ("root.teams.RED", 2),
        ("root.default", 4),
        ("default", None),
        ("root.x", None),
        ("", None),
    ],
)
def test_queues_are_found_by_full_path_ignoring_case(path, index):
    assert TREE.find(path) == index


def test_upwards_goes_from_the_queue_itself_to_root():
    assert list(TREE.upwards(3)) == [3, 1, 0]
    assert list(TREE.upwards(0)) == [0]


def test_the_effective_max_is_the_minimum_down_the_path_from_the_total():
    maxima = TREE.effective_max({"vcore": 3000, "gpu": 4})
    assert maxima == (
        {"vcore": 3000, "gpu": 4},
        {"vcore": 3000, "gpu": 4, "memory": 100},
        {"vcore": 2000, "gpu": 4, "memory": 100},
        {"vcore": 3000, "gpu": 4, "memory": 100},
        {"vcore": 3000, "gpu": 0},
    )


def test_without_a_total_the_effective_max_is_the_configured_one():
    assert TREE.effective_max({}) == (
        {},
        {"vcore": 4000, "memory": 100},
        {"vcore": 2000, "memory": 100, "gpu": 8},
        {"vcore": 4000, "memory": 100},
        {"gpu": 0},
    )


def test_root_without_queues_has_no_leaves():
    alone = QueueTree.of(Partition(root=Queue(name="root", path="root", parent=True)))
    assert alone.leaves == ()
    assert alone.find("root") == 0
