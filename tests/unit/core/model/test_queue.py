"""Queues made on first use, put into a partition's tree."""

from rankd.core.model.queue import ChildTemplate, Partition, Queue, QueueProperties, with_made

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
