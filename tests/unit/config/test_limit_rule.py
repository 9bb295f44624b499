import msgspec
import pytest

from rankd.config.queues import check_queues, read_queue_document


def limit(*users, groups=(), **fields):
    return {"users": list(users), "groups": list(groups), **(fields or {"maxapplications": 1})}


def apps(user, count):
    return limit(user, maxapplications=count)


def memory(user, amount, **more):
    return limit(user, maxresources={"memory": amount, **more})


def in_queue(*limits, **queue):
    return in_root({"name": "a", "limits": list(limits), **queue})


def in_root(*queues, **root):
    return {"partitions": [{"queues": [{"name": "root", "queues": list(queues), **root}]}]}


def chain(*levels):
    """Queues below each other, each with its limits; the first list is root's."""
    queues = []
    for depth, limits in reversed(list(enumerate(levels[1:], start=1))):
        queues = [{"name": f"q{depth}", "limits": limits, "queues": queues}]
    return in_root(*queues, limits=levels[0])


def error_paths(document):
    errors = check_queues(msgspec.json.encode(document).decode()).errors
    return [found.path.removeprefix("partitions[0].queues[0].queues[0].") for found in errors]


@pytest.mark.parametrize("name", ["a", "_a", "A.b@c:d#e/f-9", "svc$", "*"])
def test_user_names(name):
    assert error_paths(in_queue(limit(name))) == []


@pytest.mark.parametrize("name", ["", None, "9a", "a b", "a$b", "é", "a!", "-a", "**"])
def test_other_user_names_are_errors(name):
    assert error_paths(in_queue(limit(name))) == ["limits[0].users[0]"]


@pytest.mark.parametrize("name", ["g", "_g", "G_:.@/-9"])
def test_group_names(name):
    assert error_paths(in_queue(limit(groups=[name]))) == []


@pytest.mark.parametrize("name", ["", "9g", "g$", "g#", "g h"])
def test_other_group_names_are_errors(name):
    assert error_paths(in_queue(limit(groups=[name]))) == ["limits[0].groups[0]"]


@pytest.mark.parametrize(
    ("limits", "paths"),
    [
        ([limit("a", "b"), limit("c", groups=["a"])], []),
        ([limit("a", "a")], ["limits[0].users[1]"]),
        ([limit("a"), limit("b", "a")], ["limits[1].users[1]"]),
        ([limit("*"), limit("*")], ["limits[1].users[0]"]),
        ([limit(groups=["g"]), limit(groups=["g"])], ["limits[1].groups[0]"]),
        ([limit("a"), limit("A")], []),
    ],
)
def test_no_name_stands_twice_in_a_queue(limits, paths):
    assert error_paths(in_queue(*limits)) == paths


@pytest.mark.parametrize(
    ("limits", "paths"),
    [
        ([limit("a"), limit("b", "*")], []),
        ([limit("*", "a")], ["limits[0].users[1]"]),
        ([limit("*"), limit("a")], ["limits[1].users[0]"]),
        ([limit("*"), limit(groups=["g"])], []),
        ([limit(groups=["g", "*"])], []),
        ([limit(groups=["g"]), limit(groups=["*"])], []),
        ([limit(groups=["*"]), limit(groups=["g"])], ["limits[1].groups[0]"]),
    ],
)
def test_the_wildcard_comes_last(limits, paths):
    assert error_paths(in_queue(*limits)) == paths


def test_a_lone_wildcard_group_is_refused_and_a_lone_wildcard_user_is_not():
    assert error_paths(in_queue(limit(groups=["*"]))) == ["limits[0].groups"]
    assert error_paths(in_queue(limit("a", groups=["*"]))) == ["limits[0].groups"]
    assert error_paths(in_queue(limit("*"))) == []


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        (limit(maxapplications=1), ["limits[0]"]),
        ({"maxapplications": 1}, ["limits[0]"]),
        ({"users": ["a"]}, ["limits[0]"]),
        (limit("a", maxapplications=0), ["limits[0]"]),
        (limit("a", maxresources={}), ["limits[0]"]),
        (limit("a", maxresources={}, maxapplications=1), []),
        (limit("a", maxresources={"memory": 0}), ["limits[0].maxresources"]),
        (limit("a", maxresources={"memory": 0, "vcore": "0"}, maxapplications=1), ["limits[0].maxresources"]),
        (limit("a", maxresources={"memory": 0, "vcore": "1m"}), []),
        (limit("a", maxresources={"memory": "x"}, maxapplications=1), ["limits[0].maxresources.memory"]),
        (limit("a", maxapplications=-1, maxresources={"memory": 1}), ["limits[0].maxapplications"]),
    ],
)
def test_a_limit_names_somebody_and_limits_something(given, paths):
    assert set(paths) <= set(error_paths(in_queue(given)))
    assert bool(paths) == bool(error_paths(in_queue(given)))


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        (memory("a", 5, gpu=9), []),
        (memory("a", 6), ["limits[0].maxresources"]),
        (limit(groups=["g"], maxresources={"memory": 6}), ["limits[0].maxresources"]),
        (apps("a", 3), []),
        (apps("a", 4), ["limits[0].maxapplications"]),
    ],
)
def test_a_limit_is_at_most_the_queues_own(given, paths):
    assert error_paths(in_queue(given, resources={"max": {"memory": 5}}, maxapplications=3)) == paths


def test_without_a_max_a_queue_takes_any_limit():
    assert error_paths(in_queue(memory("a", "1E"), resources={"max": {"memory": 0}})) == []


@pytest.mark.parametrize("make", [apps, memory])
@pytest.mark.parametrize(
    ("levels", "sound"),
    [
        ([[("a", 5)], [("a", 5)]], True),
        ([[("a", 5)], [("a", 6)]], False),
        ([[("a", 5)], [], [("a", 6)]], False),
        ([[("a", 5)], [("b", 9)], [("a", 6)]], False),
        ([[("a", 5)], [("a", 4)], [("a", 5)]], False),
        ([[("*", 5)], [("a", 5)]], True),
        ([[("*", 5)], [("a", 6)]], False),
        ([[("*", 5)], [], [("a", 6)]], False),
        ([[("*", 5)], [("*", 6)]], False),
        ([[("a", 9), ("*", 5)], [("a", 8)]], True),
        ([[("a", 9), ("*", 5)]], True),
        ([[("a", 5)], [("b", 6)]], True),
        ([[("a", 5)], [("*", 6)]], True),
        ([[], [("a", 5)], [("a", 6)]], False),
    ],
)
def test_a_limit_is_at_most_the_one_above_for_the_same_name_or_else_for_everyone(make, levels, sound):
    document = chain(*[[make(*entry) for entry in level] for level in levels])
    assert (error_paths(document) == []) == sound


def test_groups_are_bounded_as_users_are():
    above = limit(groups=["g", "*"], maxapplications=5)
    assert error_paths(chain([above], [limit(groups=["g"], maxapplications=5)])) == []
    assert error_paths(chain([above], [limit(groups=["g"], maxapplications=6)])) == ["limits[0].maxapplications"]
    assert error_paths(chain([above], [limit(groups=["h"], maxapplications=6)])) == ["limits[0].maxapplications"]


def test_users_and_groups_of_one_name_do_not_bound_each_other():
    assert error_paths(chain([apps("x", 5)], [limit(groups=["x"], maxapplications=6)])) == []


@pytest.mark.parametrize(("below", "sound"), [(memory("a", 1), False), (apps("a", 2), True)])
def test_below_a_limit_of_applications_the_same_name_has_one_too(below, sound):
    assert (error_paths(chain([apps("a", 5)], [below])) == []) == sound


def test_types_that_the_limit_above_leaves_open_stay_open():
    assert error_paths(chain([memory("a", 5)], [memory("a", 5, gpu=9)], [memory("a", 5, gpu=10)])) == [
        "queues[0].limits[0].maxresources"
    ]


def with_partition_limits(partition, root):
    return {"partitions": [{"limits": partition, "queues": [{"name": "root", "limits": root, "queues": []}]}]}


def test_limits_of_partition_and_root_are_equal_if_both_exist():
    assert error_paths(with_partition_limits([apps("a", 1)], [apps("a", 1)])) == []
    assert error_paths(with_partition_limits([apps("a", 1)], [apps("a", 2)])) == ["partitions[0].limits"]
    assert error_paths(with_partition_limits([apps("a", 1)], [apps("a", 1), apps("b", 1)])) == ["partitions[0].limits"]


def test_limits_of_a_partition_are_those_of_its_root():
    partition = read_queue_document(with_partition_limits([apps("a", 1)], [])).partitions[0]
    assert partition.root.limits == partition.limits
    document = with_partition_limits([apps("a", 1)], [])
    document["partitions"][0]["queues"][0]["queues"] = [{"name": "q", "limits": [apps("a", 2)]}]
    assert error_paths(document) == ["limits[0].maxapplications"]


def test_limits_of_a_partition_are_checked_as_others_are():
    assert error_paths(with_partition_limits([limit(groups=["*"])], [])) == ["partitions[0].limits[0].groups"]
