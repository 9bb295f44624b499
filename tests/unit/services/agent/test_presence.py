"""An interactive job is an orphan once, after the time without its client."""

from rankd.services.agent.presence import Presence


def test_a_job_is_an_orphan_once_and_again_only_after_its_client_came_back():
    presence = Presence()
    presence.add(1, 0.0, detach_ok=True)
    presence.add(2, 0.0, detach_ok=False)
    presence.heard(2, 50.0)
    assert presence.orphans(60.0, 60.0) == [(1, True)]
    assert presence.orphans(61.0, 60.0) == []
    presence.heard(1, 70.0)
    assert presence.orphans(110.0, 60.0) == [(2, False)]
    assert presence.orphans(130.0, 60.0) == [(1, True)]


def test_time_in_which_no_client_could_be_heard_does_not_count():
    presence = Presence()
    presence.add(1, 0.0, detach_ok=False)
    presence.excuse(100.0)
    assert presence.orphans(159.0, 60.0) == []
    assert presence.orphans(160.0, 60.0) == [(1, False)]


def test_an_ended_job_is_no_orphan_and_a_stranger_is_not_added():
    presence = Presence()
    presence.add(1, 0.0, detach_ok=False)
    presence.end(1)
    presence.heard(9, 0.0)
    assert presence.orphans(1_000.0, 60.0) == []
    assert not presence.has(9)
