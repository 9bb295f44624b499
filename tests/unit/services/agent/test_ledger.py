"""An allocation is forgotten only when nothing can start it again."""

from __future__ import annotations

from rankd.services.agent.ledger import REMEMBERED, Ledger


def a_ledger() -> Ledger[int]:
    ledger: Ledger[int] = Ledger()
    ledger.add(1, job=10)
    return ledger


def test_it_is_forgotten_once_its_end_is_recorded_and_still_refused():
    ledger = a_ledger()
    assert ledger.reported([1]) == []  # it runs
    ledger.end(ledger.entries[1])
    assert ledger.has_seen(1)
    assert ledger.reported([1, 1]) == [1]
    assert ledger.entries == {}
    assert ledger.has_seen(1)


def test_forgotten_ones_are_bounded():
    ledger: Ledger[int] = Ledger()
    for key in range(1, REMEMBERED + 2):
        ledger.end(ledger.add(key, job=key))
        ledger.reported([key])
    assert [ledger.has_seen(key) for key in (1, 2, REMEMBERED + 1)] == [False, True, True]


async def test_all_ended_waits_for_the_last_one():
    ledger = a_ledger()
    second = ledger.add(2, job=20)
    ledger.end(ledger.entries[1])
    ledger.end(ledger.entries[1])
    assert ledger.running() == [2]
    ledger.end(second)
    await ledger.all_ended()
