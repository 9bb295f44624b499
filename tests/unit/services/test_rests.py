"""How long a user rests between parts of long work."""

from rankd.services.intake.rests import LATELY_S, MOST_S, Rests


class At:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_user_who_is_alone_does_not_rest():
    rests = Rests(At())
    assert rests.after("alice", 0.1) == 0
    rests.note("alice")
    assert rests.after("alice", 0.1) == 0


def test_beside_others_the_rest_is_as_long_as_the_work_and_has_a_limit():
    rests = Rests(At())
    rests.note("bob")
    for _ in range(10):
        rests.note("alice")
    assert rests.after("alice", 0.1) == 0.1
    assert rests.after("bob", 0.1) == 0.1
    assert rests.after("alice", 60) == MOST_S


def test_others_of_a_while_ago_do_not_count_nor_do_those_of_a_stepped_clock():
    clock = At()
    rests = Rests(clock)
    rests.note("bob")
    rests.note("alice")
    clock.now += LATELY_S
    assert rests.after("alice", 0.1) == 0
    clock.now -= 2 * LATELY_S
    assert rests.after("alice", 0.1) == 0


def test_however_many_ask_the_last_ones_are_enough():
    rests = Rests(At())
    for number in range(1_000):
        rests.note(f"user{number}")
    assert len(rests._asked_at) == 2
    assert rests.after("user999", 0.1) == 0.1
