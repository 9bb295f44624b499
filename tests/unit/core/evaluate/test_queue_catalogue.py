"""Queues of all partitions with their ids."""

from builder import leaf, parent

from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.queue import ChildTemplate, Partition

TREE = parent("root", leaf("root.A"), parent("root.t", child_template=ChildTemplate()))
BOTH = QueueCatalogue.of([Partition(name="default", root=TREE), Partition(name="gpu", root=TREE)])


def test_ids_count_all_partitions_and_say_whose_they_are():
    assert list(BOTH.ids.values()) == list(range(6))
    assert BOTH.paths[BOTH.ids["gpu", "root.a"]] == "root.A"
    assert BOTH.places == (0, 0, 0, 1, 1, 1)


def test_a_queue_is_found_in_the_first_partition_that_has_it_ignoring_case():
    assert BOTH.find("ROOT.a").partition == "default"
    assert BOTH.find("a", ["gpu"]).partition == "gpu"
    assert BOTH.find("root.none") is None


def test_queues_made_on_first_use_come_in_their_own_partition():
    grown = BOTH.with_made([("gpu", "root.t.new")])
    assert grown.find("root.t.new", ["gpu"]) is not None
    assert ("default", "root.t.new") not in grown.ids
    assert BOTH.with_made([]) is BOTH
