"""What an intake takes for counted."""

import pytest

from rankd.services.intake import beside as module
from rankd.services.intake.beside import Beside
from rankd.store.feed.new_pending import Newest


class Limits:
    """Notes what a transaction has seen, and what was counted."""

    def __init__(self):
        self.seen, self.counted = [], []

    def notice(self, new):
        self.seen = list(new)

    def settle(self):
        self.counted += self.seen
        self.seen = []


def test_jobs_of_others_that_could_not_be_read_are_read_by_the_next_transaction(monkeypatch):
    limits, stored = Limits(), ["job 7"]
    beside = Beside(limits)

    def pending_between(_connection, event, last):
        assert (event, last) == (0, 50)
        if stored_can_be_read:
            return stored
        raise ConnectionError

    monkeypatch.setattr(module, "pending_between", pending_between)
    stored_can_be_read = False
    with pytest.raises(ConnectionError):
        beside.begin(None, (0, 50))
    beside.settle(None)
    assert (beside.known, limits.counted) == (Newest(0, 0), [])
    stored_can_be_read = True
    beside.begin(None, (0, 50))
    beside.settle(None)
    assert (beside.known, limits.counted) == (Newest(0, 50), stored)
