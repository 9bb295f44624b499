"""A ring keeps what is not confirmed, and the replay; never more."""

from hypothesis import given
from hypothesis import strategies as st

from rankd.services.keeper.ring import Ring

STEPS = st.lists(st.one_of(st.binary(min_size=1, max_size=8), st.integers(0, 80)), max_size=30)


@given(STEPS, st.integers(1, 20), st.integers(0, 10))
def test_what_is_not_confirmed_and_the_replay_can_be_read_again(steps, window, replayed):
    ring, whole = Ring(window, replayed), b""
    for step in steps:
        if isinstance(step, bytes):
            part = step[: ring.room]
            ring.add(part)
            whole += part
        else:
            ring.confirm(step)
        assert ring.end == len(whole)
        assert ring.part(ring.first, ring.end) == whole[ring.first :]
        assert ring.first <= max(min(ring.read, ring.end - replayed), 0)
        assert ring.end - ring.first <= window + replayed


def test_without_a_reader_only_the_replay_is_kept_and_there_is_always_room():
    ring = Ring(window=10, replayed=4)
    ring.add(b"0123456789")
    assert ring.room == 0
    ring.let_go()
    ring.add(b"abcdef")
    assert (ring.room, ring.part(ring.first, 10)) == (10, b"cdef")
    ring.hold(ring.end)
    ring.add(b"g")
    assert ring.room == 9


def test_what_a_reader_that_has_come_again_did_not_confirm_is_kept():
    ring = Ring(window=10, replayed=4)
    ring.let_go()
    ring.add(b"abcdef")
    ring.hold(ring.first)
    ring.add(b"ghijk")
    assert (ring.room, ring.part(2, 99)) == (1, b"cdefghijk")
    ring.confirm(9)
    assert (ring.room, ring.first) == (8, 7)
