import pytest

from rankd.core.errors import Unavailable
from rankd.services.runtime.socket_room import (
    AT_ONCE,
    AT_ONCE_PER_USER,
    MOST_BYTES,
    MOST_BYTES_PER_USER,
    SocketRoom,
)

ALICE, BOB = 1000, 1001


def is_busy(action) -> bool:
    try:
        action()
    except Unavailable as error:
        return error.code == "busy"
    return False


def test_one_user_with_too_many_connections_keeps_out_nobody_else():
    room = SocketRoom()
    for _ in range(AT_ONCE_PER_USER):
        room.enter(ALICE)
        room.check(ALICE)
    room.enter(ALICE)
    assert is_busy(lambda: room.check(ALICE))
    room.enter(BOB)
    room.check(BOB)
    room.leave(ALICE)
    room.check(ALICE)


def test_all_users_together_have_a_limit():
    room = SocketRoom()
    for number in range(AT_ONCE):
        room.enter(number)
    room.check(0)
    room.enter(ALICE)
    assert is_busy(lambda: room.check(ALICE))
    for number in range(AT_ONCE):
        room.leave(number)
    assert room.connections == 1


def test_the_bytes_of_a_user_that_wait_have_a_limit_and_others_are_not_counted():
    room = SocketRoom()
    room.reserve(ALICE, MOST_BYTES_PER_USER)
    assert is_busy(lambda: room.reserve(ALICE, 1))
    room.reserve(BOB, 1)
    room.release(ALICE, MOST_BYTES_PER_USER)
    room.reserve(ALICE, 1)


def test_who_has_nothing_waiting_is_always_served():
    room = SocketRoom()
    for number in range(MOST_BYTES // MOST_BYTES_PER_USER):
        room.reserve(number, MOST_BYTES_PER_USER)
    room.reserve(ALICE, 10)
    assert is_busy(lambda: room.reserve(ALICE, 10))
    with pytest.raises(Unavailable, match="try again in a second"):
        room.reserve(ALICE, 10)
