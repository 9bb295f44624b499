"""A cookie names the user whom the page has signed in, and nobody can make one."""

import pytest
from builder import NOW

from rankd.services.web.session import LASTS_S, Session, change_token, is_change_token, read, sign

KEY, OTHER = b"k" * 32, b"o" * 32
ALICE = Session(user="alice", since=NOW, nonce="n")


def test_a_cookie_is_read_as_it_was_signed():
    assert read(sign(ALICE, KEY), KEY, NOW + 1) == ALICE


@pytest.mark.parametrize("now", [NOW + LASTS_S, NOW - LASTS_S])
def test_a_cookie_that_is_over_or_from_the_future_counts_no_more(now):
    assert read(sign(ALICE, KEY), KEY, now) is None


def test_a_cookie_of_another_key_or_with_another_name_counts_nothing():
    cookie = sign(ALICE, KEY)
    forged = sign(Session(user="root", since=NOW, nonce="n"), OTHER)
    body, signature = forged.split(".")[0], cookie.split(".")[1]
    for wrong in (
        forged,
        f"{body}.{signature}",
        f"{cookie}x",
        cookie[:-1],
        "",
        ".",
        "é.é",
        "a" * 10_000,
        f".{signature}",
    ):
        assert read(wrong, KEY, NOW) is None, wrong


def test_a_change_token_is_of_one_user_and_one_session():
    token = change_token("alice", "n", KEY)
    assert is_change_token(token, "alice", "n", KEY)
    for user, nonce, key in (("bob", "n", KEY), ("alice", "m", KEY), ("alice", "n", OTHER), ("alic", "e n", KEY)):
        assert not is_change_token(token, user, nonce, key)
    assert not is_change_token("\ud800", "alice", "n", KEY)
