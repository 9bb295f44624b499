"""An allocation is forgotten only when nothing can start it again."""

from __future__ import annotations

import itertools

import pytest

from rankd.services.agent_ledger import REMEMBERED, Ledger


def a_ledger() -> Ledger[int]:
    ledger: Ledger[int] = Ledger()
    ledger.add(1, job=10, sequence=7)
    return ledger


STEPS = {
    "ended": lambda ledger: ledger.end(ledger.entries[1]) or [],
    "reported": lambda ledger: ledger.reported([1]),
    "settled": lambda ledger: ledger.settle(7),
}


@pytest.mark.parametrize("missing", STEPS)
def test_nothing_is_forgotten_while_one_condition_is_missing(missing):
    ledger = a_ledger()
    assert not [key for name, step in STEPS.items() if name != missing for key in step(ledger)]
    assert ledger.has_seen(1)
    assert 1 in ledger.entries


# an end is reported only after it happened; the order may be settled at any time
ORDERS = [order for order in itertools.permutations(STEPS) if order.index("ended") < order.index("reported")]


@pytest.mark.parametrize("order", [order for order in ORDERS if order[-1] != "ended"])
def test_it_is_forgotten_by_the_last_step_and_still_refused(order):
    ledger = a_ledger()
    forgotten = [STEPS[name](ledger) for name in order]
    assert forgotten == [[], [], [1]]
    assert ledger.entries == {}
    assert ledger.has_seen(1)


def test_a_cancelled_allocation_whose_start_never_came_is_kept():
    ledger: Ledger[int] = Ledger()
    entry = ledger.add(1, job=0, sequence=0)
    ledger.end(entry)
    assert ledger.reported([1]) == []
    assert ledger.unsettled() == []
    ledger.identify(entry, job=10, sequence=9)
    assert ledger.settle(9) == []
    assert ledger.reported([1]) == [1]


def test_forgotten_ones_are_bounded():
    ledger: Ledger[int] = Ledger()
    for key in range(1, REMEMBERED + 2):
        ledger.end(ledger.add(key, job=key, sequence=key))
        ledger.settle(key)
        ledger.reported([key])
    assert [ledger.has_seen(key) for key in (1, 2, REMEMBERED + 1)] == [False, True, True]


async def test_all_ended_waits_for_the_last_one():
    ledger = a_ledger()
    second = ledger.add(2, job=20, sequence=7)
    ledger.end(ledger.entries[1])
    ledger.end(ledger.entries[1])
    assert ledger.running() == [2]
    ledger.end(second)
    await ledger.all_ended()
