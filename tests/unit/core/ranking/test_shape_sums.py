"""What leaves wait for is summed shape by shape, at a cost that goes by what the shapes name."""

import random

import numpy as np

from rankd.core.ranking.ranking import _summed_shapes


def slowly(amounts, shapes, counts, firsts):
    sums = [{} for _ in firsts]
    for place, (shape, count) in enumerate(zip(shapes.tolist(), counts.tolist(), strict=True)):
        leaf = sums[int(np.searchsorted(firsts, place, side="right")) - 1]
        for kind, amount in amounts[shape].items():
            leaf[kind] = leaf.get(kind, 0) + amount * count
    return sums


def drawn(draw, most):
    amounts = [
        {kind: draw.randint(0, most) for kind in draw.sample("abcdef", draw.randint(0, 4))}
        for _ in range(draw.randint(1, 8))
    ]
    n = draw.randint(1, 30)
    shapes = np.array([draw.randrange(len(amounts)) for _ in range(n)], dtype=np.int64)
    counts = np.array([draw.randint(1, 5) for _ in range(n)], dtype=np.int64)
    firsts = np.array([0, *sorted(draw.sample(range(1, n), draw.randint(0, (n - 1) // 2)))], dtype=np.int64)
    return amounts, shapes, counts, firsts


def test_sums_are_those_of_adding_one_by_one_also_beyond_64_bits():
    for seed in range(200):
        draw = random.Random(seed)
        given = drawn(draw, draw.choice([9, 2**40, 2**62]))
        found = _summed_shapes(*given)
        assert found == slowly(*given)
        assert all(type(amount) is int for leaf in found for amount in leaf.values())


def test_types_are_in_the_order_in_which_shapes_name_them():
    amounts = [{"b": 1, "a": 1}, {"c": 1, "a": 1}]
    [found] = _summed_shapes(amounts, np.array([1, 0]), np.array([1, 1]), np.array([0]))
    assert list(found) == ["b", "a", "c"]


def test_many_types_cost_what_they_are_not_their_product_with_all_shapes():
    """70,000 types of 700 shapes: looking each up in each shape would be 49 million steps, and a second column."""
    amounts = [{f"kind{shape}x{number}": 1 for number in range(100)} for shape in range(700)]

    class Counted(dict):
        looked_up = 0

        def get(self, *arguments):
            Counted.looked_up += 1
            return super().get(*arguments)

        def __contains__(self, key):
            Counted.looked_up += 1
            return super().__contains__(key)

    [found] = _summed_shapes(
        [Counted(own) for own in amounts], np.arange(700), np.ones(700, dtype=np.int64), np.zeros(1, dtype=np.int64)
    )
    assert len(found) == 70_000
    assert Counted.looked_up <= 70_000
