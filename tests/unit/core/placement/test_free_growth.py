"""What is free while nothing is reserved, compared with what is looked up node by node and instant by instant."""

import math
from random import Random

import numpy as np
import pytest
from builder import NOW, node, shape

from rankd.core.model.node import NodeState
from rankd.core.model.queue import NodeSort
from rankd.core.placement.free_growth import FreeGrowth, Windows
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import Hold
from rankd_plugins.node_sort.fair import Fair

CORES = 8000
STATES = [NodeState.UP, NodeState.UP, NodeState.UP, NodeState.DOWN]


class World:
    """Some nodes on which jobs run, of which some have started in this cycle."""

    def __init__(self, seed, n_nodes):
        random = Random(seed)
        names = [f"n{number}" for number in range(n_nodes)]
        self.holds = [(random.choice(names), self.ends_at(random)) for _ in range(random.randint(0, 4 * n_nodes))]
        used = {name: {"vcore": 1000 * sum(held == name for held, _ in self.holds)} for name in names}
        self.table = NodeTable(
            [node(name, used=used[name], vcore=CORES, state=random.choice(STATES)) for name in names],
            Fair(),
            NodeSort().resourceweights,
            [Hold(node=name, resources={"vcore": 1000}, ends_at=ends_at) for name, ends_at in self.holds],
        )
        self.started = []
        small = self.table.demand(shape(vcore=1000))
        for _ in range(random.randint(0, 3)):
            row = random.randrange(n_nodes)
            if self.table.fitting(small)[row]:
                [share] = self.table.shares([row], small)
                self.table.occupy(row, share)
                self.started.append((row, self.ends_at(random), share.vector))
        self.growth = FreeGrowth(self.table, NOW, self.started)

    @staticmethod
    def ends_at(random):
        return random.choice([math.inf, *(NOW + at for at in range(-1, 5))])

    def free_at(self, row, instant):
        name = self.table.nodes[row].name
        ends = [ends_at for held, ends_at in self.holds if held == name]
        ends += [ends_at for started, ends_at, _ in self.started if started == row]
        return int(self.table.free[row, 0]) + 1000 * sum(max(ends_at, NOW) <= instant for ends_at in ends)

    def earliest(self, row, amount):
        instants = [NOW + at for at in range(6)]
        return next((at for at in instants if self.table.up[row] and self.free_at(row, at) >= amount), None)


@pytest.mark.parametrize("n_nodes", [1, 2, 5])
def test_each_node_fits_from_the_first_instant_with_enough_free(n_nodes):
    for seed in range(60):
        world = World(seed, n_nodes)
        amount = Random(seed).randint(1, 8) * 1000
        expected = {row: at for row in range(n_nodes) if (at := world.earliest(row, amount)) is not None}
        found = world.growth.windows(world.table.demand(shape(vcore=amount)), 3.0, 1)
        if not expected:
            assert found is None
            continue
        assert dict(zip(found.rows.tolist(), found.begins.tolist(), strict=True)) == expected
        assert found.ends.tolist() == [math.inf] * len(expected)
        assert world.growth.windows(world.table.demand(shape(vcore=amount)), 3.0, len(expected) + 1) is None


@pytest.mark.parametrize("n_nodes", [1, 4])
def test_what_is_free_at_an_instant_is_what_the_steps_say(n_nodes):
    for seed in range(60):
        world = World(seed, n_nodes)
        rows = np.flatnonzero(world.table.up)
        for at in range(6):
            expected = [world.free_at(row, NOW + at) for row in rows.tolist()]
            assert world.growth.at(rows, NOW + at)[:, 0].tolist() == expected
            steps = world.growth.steps()
            now = (steps.begins <= NOW + at) & (NOW + at < steps.ends)
            assert steps.free[0, now].tolist() == expected


def test_a_single_window_has_the_same_instants_and_rows_as_others():
    keys = np.zeros(3)
    one = Windows(np.array([2]), np.array([NOW]), np.array([math.inf]), 5.0)
    assert one.instants(1).tolist() == [NOW]
    assert one.instants(2).tolist() == []
    assert (one.at(NOW, keys), one.at(NOW - 1, keys)) == ([2], [])
