"""When a keeper counts as silent."""

from __future__ import annotations

from rankd.services.keeper.pulse import Pulse, heard, look, unable

EVERY_S, SILENT_S = 2.0, 30.0


def looked(pulse: Pulse, *times: float) -> tuple[Pulse, int]:
    """After looks at these times; how many pings were sent."""
    pings = 0
    for now in times:
        pulse, ping = look(pulse, now, EVERY_S)
        pings += ping
    return pulse, pings


def test_a_keeper_that_answers_every_ping_is_well_for_ever():
    pulse = Pulse(pid=7, looked_at=0.0)
    for now in range(0, 1000, 2):
        pulse, ping = look(pulse, float(now), EVERY_S)
        assert ping
        assert unable(pulse, SILENT_S) is None
        pulse = heard(pulse)


def test_one_ping_at_a_time_is_sent_to_a_keeper_that_does_not_read_them():
    assert looked(Pulse(pid=7, looked_at=0.0), *map(float, range(0, 1000, 2)))[1] == 1


def test_a_keeper_is_silent_once_a_ping_has_not_been_answered_for_so_long_and_well_once_it_says_something():
    pulse, _ = looked(Pulse(pid=7, looked_at=0.0), *map(float, range(0, 30, 2)))
    assert unable(pulse, SILENT_S) is None
    pulse, _ = looked(pulse, 30.0)
    assert unable(pulse, SILENT_S) == "keeper 7 does not answer: it is stopped or hangs"
    assert unable(heard(pulse), SILENT_S) is None
    assert looked(heard(pulse), 32.0)[1] == 1


def test_time_in_which_the_agent_itself_stood_still_makes_no_keeper_silent():
    pulse, _ = looked(Pulse(pid=7, looked_at=0.0), 2.0, 900.0)
    assert unable(pulse, SILENT_S) is None
