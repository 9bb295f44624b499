"""The index gives the node that a look at all nodes would give, placement after placement."""

import random

import numpy as np
import pytest
from builder import shape

from rankd.core.model.node import Node, NodeState
from rankd.core.placement import node_index
from rankd.core.placement.node_index import Finder, NodeIndex, OnlyNode
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.timeline import Kept
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair


class Level:
    """Everything ties: names alone decide."""

    name = "level"

    def key(self, utilisation):
        return np.zeros_like(utilisation)


class Extreme:
    """Keys without bounds."""

    name = "extreme"

    def key(self, utilisation):
        return np.where(utilisation > 0.5, np.inf, -np.inf)


WEIGHTS = {"vcore": 1.0, "memory": 1.0}


def many_nodes(rng, n):
    return [
        Node(
            name=f"n{place:04}",
            capacity={"vcore": rng.choice([8, 16]), "memory": rng.randint(16, 24), "gpu": rng.choice([0, 2])},
            used={"vcore": rng.randint(0, 8), "memory": rng.randint(0, 16)},
            labels=rng.choice([{}, {"gpu": "a100"}]),
            state=rng.choice([NodeState.UP] * 5 + [NodeState.DRAINING]),
        )
        for place in range(n)
    ]


def some_shapes(rng, n):
    return [
        shape(
            resources={
                kind: rng.randint(1, most)
                for kind, most in (("vcore", 4), ("memory", 6), ("gpu", 2))
                if rng.random() < 0.6
            },
            constraints=rng.choice([None, None, "gpu=a100"]),
            exclusive=rng.random() < 0.1,
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("policy", [Fair(), Binpacking(), Level(), Extreme()])
@pytest.mark.parametrize(("block", "changed"), [(3, 5), (16, 40), (128, 192)])
def test_the_index_finds_what_a_look_at_all_nodes_finds(monkeypatch, policy, block, changed):
    # so that 150 nodes, which the slow search can keep up with, are many blocks as well as one
    monkeypatch.setattr(node_index, "BLOCK", block)
    monkeypatch.setattr(node_index, "CHANGED_AT_LEAST", changed)
    rng = random.Random(f"{policy.name}{block}")
    table = NodeTable(many_nodes(rng, 150), policy, WEIGHTS)
    index = NodeIndex(table)
    demands = [table.demand(asked) for asked in some_shapes(rng, 12)]
    finders = [Finder(index, demand) for demand in demands]
    for _ in range(900):
        place = rng.randrange(len(demands))
        wanted = table.best(table.fitting(demands[place]), 1)
        found = finders[place].best()
        assert found == (wanted[0] if wanted else None)
        if found is not None:
            index.occupy(found, index.table.share(found, demands[place]))
    assert any(finder.best() is None for finder in finders)  # the nodes were filled up


def test_the_only_node_is_found_as_by_a_finder():
    rng = random.Random(11)
    for _ in range(60):
        table = NodeTable(many_nodes(rng, 1), Fair(), WEIGHTS)
        free = np.full(table.free.shape, rng.choice([1500, np.iinfo(np.int64).max]))
        reserved = Reserved(free, table)
        reserved.version = 1
        for given in (None, reserved):
            for demand in (table.demand(asked) for asked in some_shapes(rng, 6)):
                found = OnlyNode(table, demand, given).best()
                assert found == Finder(NodeIndex(table), demand, given).best()
                if found is not None:
                    table.occupy(found, table.share(found, demand))


class Reserved:
    """Reservations of which only what they leave is told."""

    def __init__(self, free, table):
        self.version = 0
        self.free = free
        self.table = table

    def kept(self, _limit_s):
        return Kept(self.free, self.table)


def test_what_is_kept_for_others_is_left_out_also_when_it_grows():
    rng = random.Random(5)
    table = NodeTable(many_nodes(rng, 150), Fair(), WEIGHTS)
    index = NodeIndex(table)
    demands = [table.demand(asked) for asked in some_shapes(rng, 6)]
    free = np.full(table.free.shape, np.iinfo(np.int64).max)
    reserved = Reserved(free, table)
    finders = [Finder(index, demand, reserved) for demand in demands]
    for turn in range(400):
        if turn % 20 == 0:  # another reservation: a few nodes are not for these demands any more
            reserved.version += 1
            free[[rng.randrange(150) for _ in range(5)]] = 0
        place = rng.randrange(len(demands))
        fits = table.fitting(demands[place])
        fits &= Kept(free, table).allows(np.arange(150), demands[place])
        wanted = table.best(fits, 1)
        found = finders[place].best()
        assert found == (wanted[0] if wanted else None)
        if found is not None:
            index.occupy(found, index.table.share(found, demands[place]))
