"""Step functions of nodes that change again and again: what is free at an instant is what all changes come to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.placement.free_step import FreeSteps

NODES, NOW = 5, 100.0
TIMES = st.sampled_from([NOW, 101.0, 102.5, 110.0, 1e9])
CHANGES = st.lists(st.tuples(st.integers(0, NODES - 1), TIMES, st.integers(-3, 3)), min_size=1, max_size=6)


def columns(changes):
    rows, times, amounts = zip(*changes, strict=True)
    return np.array(rows), np.array(times), np.array([[amount, 1] for amount in amounts])


def free_at(changes, row, instant):
    """Looked up change by change."""
    own = [amount for node, at, amount in changes if node == row and at <= instant]
    return [sum(own), len(own)]


@given(st.lists(CHANGES, max_size=12))
def test_steps_are_what_all_changes_come_to(batches):
    known = [(row, NOW, row) for row in range(NODES)]
    steps = FreeSteps(NODES, *columns(known))
    for batch in batches:
        steps.change(*columns(batch))
        known += batch
    alive = np.flatnonzero(steps.free[-1] >= 0)
    for row in range(NODES):
        own = alive[steps.rows[alive] == row]
        assert (np.diff(own) == 1).all()  # one behind the other
        begins = sorted({at for node, at, _ in known if node == row})
        assert steps.begins[own].tolist() == begins
        assert steps.ends[own].tolist() == [*begins[1:], np.inf]
        assert steps.free[:, own].T.tolist() == [free_at(known, row, at) for at in begins]
        for asked in ([(0, 1)], [(1, 2)], [(0, -2), (1, 3)], []):
            short = [at for at in begins if any(free_at(known, row, at)[column] < least for column, least in asked)]
            assert steps.falls_short(row, asked) == min(short, default=np.inf)
    for until in (NOW, 105.0, 2e9):
        nodes = np.array([1, 4])
        expected = [
            np.min([free_at(known, row, at) for node, at, _ in known if node == row and at <= until], axis=0).tolist()
            for row in nodes
        ]
        assert steps.least(nodes, until).tolist() == expected


def test_without_nodes_there_are_no_steps():
    empty = np.empty(0, dtype=np.int64)
    assert len(FreeSteps(0, empty, np.empty(0), np.empty((0, 2), dtype=np.int64)).rows) == 0
