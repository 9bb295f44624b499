"""Matrices have columns for what nodes offer and queues limit only, however many types jobs have named."""

import random

import msgspec
import numpy as np
import pytest
from builder import kind, shape
from placement_problem import random_problem

from rankd.core.model.quantity import LARGEST
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.kind_table import KindTable
from rankd_plugins.node_sort.fair import Fair

MANY = [
    kind(shape(resources={"vcore": 1000 + job, **{f"kind{job}x{number}": 1 for number in range(100)}}))
    for job in range(700)
]


def test_types_that_nobody_offers_take_no_columns():
    table = KindTable(MANY, known={"vcore", "memory"})
    assert table.types == ["vcore"]
    assert table.most_of(np.arange(700)).shape == (1,)
    assert sum(map(len, table.amounts)) == 700
    assert table.summed(np.arange(700), np.ones(700, dtype=np.int64)) == {"vcore": sum(range(1000, 1700))}


def test_kinds_that_ask_for_what_nobody_offers_ask_for_more_than_any_node_has():
    table = KindTable([*MANY[:2], kind(shape(resources={"vcore": 1000}))], known={"vcore"})
    assert table.asking_more({"vcore": 10_000}, has_empty_node=True).tolist() == [True, True, False]
    assert table.over(np.arange(3), {"vcore": 1000}).tolist() == [False, True, False]


def test_amounts_without_a_column_leave_sums_within_64_bits():
    table = KindTable([kind(shape(resources={"vcore": 1000, "huge": LARGEST}, nodes=1000))], known={"vcore"})
    assert table.is_exact
    assert not KindTable(table.kinds).is_exact


def test_kinds_that_are_added_one_by_one_are_as_if_they_were_added_at_once():
    rng = random.Random(3)
    for largest in (50, LARGEST):  # with the second, most sums need more than 64 bits
        kinds = [kind(a_shape(rng, largest), time_limit_s=rng.choice([None, 60.0])) for _ in range(40)]
        table = KindTable(known={"vcore", "memory", "gpu"})
        for number, one in enumerate(kinds, start=1):
            table.add(one)
            at_once = KindTable(kinds[:number], known={"vcore", "memory", "gpu"})
            most, every = {"vcore": rng.randint(0, largest), "memory": -1}, np.arange(number)
            assert table.least_asked() == at_once.least_asked()
            assert table.is_exact == at_once.is_exact
            assert table.limits_s.tolist() == at_once.limits_s.tolist()
            assert table.exclusive.tolist() == at_once.exclusive.tolist()
            assert table.most_of(every).tolist() == at_once.most_of(every).tolist()
            assert table.summed(every, every) == at_once.summed(every, every)
            assert table.over(every, most).tolist() == at_once.over(every, most).tolist()
            for is_empty in (True, False):
                expected = [asks_more(one, most, is_empty=is_empty) for one in kinds[:number]]
                assert table.asking_more(most, has_empty_node=is_empty).tolist() == expected
            some = np.array(rng.sample(range(number), rng.randint(0, min(number, 3))), dtype=np.int64)
            expected = [not asks_more(kinds[place], most, is_empty=True) for place in some.tolist()]
            assert table.any_within(some, most) == any(expected)


def a_shape(rng, largest):
    types = [name for name in ("vcore", "memory", "gpu", "other") if rng.random() < 0.6] or ["vcore"]
    resources = {name: rng.randint(1, largest) for name in types}
    return shape(resources=resources, nodes=rng.randint(1, 3), exclusive=rng.random() < 0.2)


def asks_more(one, most, *, is_empty):
    asked = one.shape.resources.items()
    return any(amount > most.get(name, 0) for name, amount in asked) or (one.shape.exclusive and not is_empty)


def outcome(given):
    found = run_cycle(given, Fair())
    return found.placements, found.reservations, set(found.own), set(found.common)


@pytest.mark.parametrize("seed", range(60))
def test_a_cycle_decides_the_same_without_columns_that_no_node_and_no_queue_names(seed):
    given = msgspec.structs.replace(random_problem(random.Random(seed)), each=False)
    given = msgspec.structs.replace(given, nodes=[_without_gpu(node) for node in given.nodes])
    known = {kind for node in given.nodes for kind in (*node.capacity, *node.used)}
    known |= {kind for queue in given.queues for kind in queue.maximum}
    narrow = msgspec.structs.replace(given, kinds=KindTable(given.kinds.kinds, known))
    assert narrow.kinds.n_types <= given.kinds.n_types
    assert outcome(narrow) == outcome(given)


def _without_gpu(node):
    def rest(amounts):
        return {kind: value for kind, value in amounts.items() if kind != "gpu"}

    return msgspec.structs.replace(node, capacity=rest(node.capacity), used=rest(node.used))


def random_table(rng):
    shapes = [
        shape(resources={name: rng.randint(1, 4) for name in "abc" if rng.random() < 0.6}, exclusive=rng.random() < 0.2)
        for _ in range(rng.randint(1, 20))
    ]
    return KindTable([kind(one) for one in shapes], known="ab" if rng.random() < 0.5 else "abc")


@pytest.mark.parametrize("seed", range(60))
def test_questions_about_all_kinds_have_the_answers_of_each_of_them(seed):
    rng = random.Random(seed)
    table, every = random_table(rng), np.arange(20)
    less, most = ({name: rng.randint(0, 5) for name in "abc" if rng.random() < 0.8} for _ in range(2))
    every, is_empty = every[: len(table)], rng.random() < 0.5
    within = [~table.asking_more(room, has_empty_node=True) for room in (less, most)]
    assert table.any_within(every, most) == within[1].any()
    assert [table.any_within(every[place : place + 1], most) for place in every] == within[1].tolist()
    assert table.any_between(every, less, most) == (within[1] & ~within[0]).any()
    more = table.asking_more(most, has_empty_node=is_empty)
    assert table.asks_more(most, has_empty_node=is_empty) == more.any()
