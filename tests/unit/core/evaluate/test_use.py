"""What is stated of queues and what is summed from jobs add up, queue by queue."""

from rankd.core.evaluate.use import with_stated

PARENTS = {0: None, 1: 0, 2: 1, 3: 1, 4: 0}


def sums(own):
    total = {queue: dict(own.get(queue, {})) for queue in PARENTS}
    for queue in reversed(list(PARENTS)):
        if PARENTS[queue] is not None:
            for kind, amount in total[queue].items():
                above = total[PARENTS[queue]]
                above[kind] = above.get(kind, 0) + amount
    return total


def test_every_queue_sums_up_to_what_is_stated_of_it():
    leaves, stated = {2: {"vcore": 5}, 4: {"vcore": 1}}, {1: {"vcore": 3}, 3: {"gpu": 2}}
    total = sums(with_stated(leaves, stated, PARENTS))
    assert total[1]["vcore"] == 3
    assert total[3] == {"gpu": 2}
    assert total[2] == {"vcore": 5}
    assert total[0]["vcore"] == 4


def test_a_parent_of_which_less_is_stated_than_its_children_use_has_a_negative_rest():
    assert with_stated({2: {"vcore": 5}}, {1: {"vcore": 3}}, PARENTS)[1] == {"vcore": -2}


def test_without_statements_nothing_changes():
    assert with_stated({2: {"vcore": 5}}, {}, PARENTS) == {2: {"vcore": 5}}
