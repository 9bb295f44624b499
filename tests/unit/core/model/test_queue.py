"""Queues: those that first use makes, and the limits and policies that count in them."""

from rankd.core.model.queue import (
    ChildTemplate,
    Limit,
    Partition,
    Queue,
    QueueProperties,
    limits_of,
    sort_policies,
    with_made,
)

TEMPLATE = ChildTemplate(max={"vcore": 1000})


def queue(path, *queues, parent=True, **fields):
    return Queue(name=path.rpartition(".")[2], path=path, parent=parent, queues=queues, **fields)


def partition(**fields):
    tenants = queue("root.t", queue("root.t.Old", parent=False), child_template=TEMPLATE, **fields)
    return Partition(root=queue("root", tenants, queue("root.p"), queue("root.leaf", parent=False)))


def paths(tree):
    def walk(own):
        yield own.path
        for child in own.queues:
            yield from walk(child)

    return list(walk(tree.root))


def test_they_stand_behind_their_siblings_in_the_order_given():
    assert paths(with_made(partition(), ["root.t.b", "root.t.a"])) == [
        "root", "root.t", "root.t.Old", "root.t.b", "root.t.a", "root.p", "root.leaf",
    ]  # fmt: skip


def test_queues_between_are_made_once_and_take_no_jobs_themselves():
    tree = with_made(partition(), ["root.t.x.a", "root.t.X.b"])
    assert paths(tree)[3:6] == ["root.t.x", "root.t.x.a", "root.t.x.b"]
    (_, between), *_ = [own.queues for own in tree.root.queues]
    assert (between.parent, between.max, between.queues[0].max) == (True, {}, TEMPLATE.max)


def test_one_that_is_there_changes_nothing():
    assert with_made(partition(), ["root.t.old", "ROOT.T.OLD"]) == partition()
    assert with_made(partition(), []) == partition()


def test_what_the_tree_does_not_allow_is_left_out():
    unwanted = ["root.p.x", "root.new", "root.leaf.x", "root.t.old.x", "other.t.x", "root.t.a b", "root"]
    assert with_made(partition(), unwanted) == partition()


def test_a_leaf_that_came_first_stays_one():
    assert paths(with_made(partition(), ["root.t.x", "root.t.x.y"]))[3:4] == ["root.t.x"]
    assert "root.t.x.y" not in paths(with_made(partition(), ["root.t.x", "root.t.x.y"]))


def test_disabled_priority_sorting_is_inherited():
    tree = with_made(partition(properties=QueueProperties(sort_priority=False)), ["root.t.x.y"])
    between = tree.root.queues[0].queues[1]
    assert not between.properties.sort_priority
    assert not between.queues[0].properties.sort_priority


def applied(limits, user, groups=()):
    return [(what, name) for what, name, _ in limits_of(limits, user, groups)]


def test_a_limit_that_names_the_user_replaces_the_one_of_all_users():
    limits = [Limit(users=("sue",)), Limit(users=("*",))]
    assert applied(limits, "sue") == [("user", "sue")]
    assert [found is limits[0] for *_, found in limits_of(limits, "sue", ())] == [True]
    assert [found is limits[1] for *_, found in limits_of(limits, "bob", ())] == [True]


def test_each_named_group_of_a_user_counts_and_all_groups_only_without_one():
    limits = [Limit(groups=("dev",)), Limit(groups=("test",)), Limit(groups=("*",))]
    assert applied(limits, "sue", ("test", "dev", "test")) == [("group", "test"), ("group", "dev")]
    assert applied(limits, "sue", ("hr",)) == [("group", "*")]
    assert applied(limits, "sue") == []


def test_policies_of_queues_that_do_not_exist_yet_are_needed_too():
    template = ChildTemplate(properties=QueueProperties(sort_policy="fair"))
    root = queue("root", queue("root.t", child_template=template), queue("root.l", parent=False))
    assert sort_policies([Partition(root=root)]) == {"fifo", "fair"}
