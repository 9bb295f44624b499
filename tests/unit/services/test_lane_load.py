"""How much is sent at once: one user's or one receiver's slowness leaves room for others."""

from rankd.services.notifier.lane_load import AT_ONCE, IN_LANE, OF_USER, LaneLoad


def test_a_lane_has_its_number():
    load = LaneLoad()
    assert [load.begin("alice a", "alice") for _ in range(IN_LANE + 1)] == [True] * IN_LANE + [False]
    load.end("alice a", "alice")
    assert load.begin("alice a", "alice")


def test_a_user_with_many_slow_receivers_leaves_room_for_others():
    load = LaneLoad()
    begun = sum(load.begin(f"alice {lane}", "alice") for lane in range(100))
    assert begun == OF_USER
    assert load.begin("bob a", "bob")


def test_mails_wait_for_no_hook():
    load = LaneLoad()
    for number in range(AT_ONCE):
        assert load.begin(f"u{number} a", f"u{number}")
    assert not load.begin("x a", "x")
    assert load.begin("mailto", "alice")
    load.end("u0 a", "u0")
    assert load.begin("x a", "x")
    assert load.total == AT_ONCE + 1


def test_nothing_stays_of_what_has_ended():
    load = LaneLoad()
    for lane, user in (("mailto", "alice"), ("alice a", "alice")):
        load.begin(lane, user)
        load.end(lane, user)
    assert (load.total, load._lanes, load._users) == (0, {}, {})
