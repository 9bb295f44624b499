"""How often somebody may ask: a burst, then so many in a second, each for itself."""

from rankd.services.gateway import rate
from rankd.services.gateway.rate import Rate


def test_a_burst_then_so_many_in_a_second():
    limit = Rate(2.0, 5)
    assert [limit.allows("a", 0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [limit.allows("a", 1.0) for _ in range(4)] == [True] * 2 + [False] * 2
    assert [limit.allows("a", 100.0) for _ in range(7)] == [True] * 5 + [False] * 2


def test_refused_requests_do_not_count():
    limit = Rate(1.0, 1)
    assert limit.allows("a", 0.0)
    assert not any(limit.allows("a", number / 1000) for number in range(1, 900))
    assert limit.allows("a", 1.0)


def test_nobody_uses_up_what_is_anothers():
    limit = Rate(1.0, 1)
    assert limit.allows("a", 0.0)
    assert limit.allows("b", 0.0)
    assert not limit.allows("a", 0.0)


def test_a_clock_that_goes_back_gives_nothing():
    limit = Rate(1.0, 1)
    assert limit.allows("a", 10.0)
    assert not limit.allows("a", 0.0)


def test_askers_of_long_ago_are_forgotten_and_others_not(monkeypatch):
    monkeypatch.setattr(rate, "MOST_ASKERS", 3)
    limit = Rate(1.0, 2)
    for asker in "abc":
        limit.allows(asker, 0.0)
    limit.allows("c", 9.0)
    limit.allows("c", 9.0)
    limit.allows("d", 9.0)
    assert not limit.allows("c", 9.0)
    assert len(limit._level) == 2
