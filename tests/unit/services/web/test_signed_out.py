"""A session that was signed out stays so, also for the next process, and nobody can make the list long."""

import stat

import msgspec
import pytest

from rankd.services.web.session import LASTS_S, Session
from rankd.services.web.signed_out import FILE, MOST_PER_USER, SignedOut


def session(user="alice", since=100.0, nonce="n"):
    return Session(user=user, since=since, nonce=nonce)


async def test_the_next_process_knows_who_has_signed_out_here(tmp_path):
    first, second = SignedOut(tmp_path), SignedOut(tmp_path)
    first.read()
    first.add(session(), 101.0)
    await first.write()
    second.read()
    for known in (first, second):
        assert known.has(session())
        assert not known.has(session(nonce="other")), "signing out on a phone ends nothing elsewhere"
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


async def test_a_list_that_cannot_be_understood_is_no_empty_one(tmp_path):
    for text in ("[]", "{", '{"sessions": 1}'):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(msgspec.MsgspecError):
            SignedOut(tmp_path).read()


async def test_the_list_forgets_sessions_that_are_over_and_does_not_grow_without_end(tmp_path):
    known = SignedOut(tmp_path)
    known.add(session("bob", nonce="b"), 101.0)
    for number in range(3 * MOST_PER_USER):
        known.add(session(since=100.0 + number, nonce=f"n{number}"), 100.5 + number)
        assert known.has(session(since=100.0 + number, nonce=f"n{number}"))
    assert known.has(session(since=100.0, nonce="never signed out"))
    assert not known.has(session(since=1000.0, nonce="new"))
    assert known.has(session("bob", nonce="b"))
    await known.write()
    assert (tmp_path / FILE).stat().st_size < 100 * MOST_PER_USER
    known.add(session("carol", 2 * LASTS_S, "c"), 2 * LASTS_S)
    await known.write()
    assert (tmp_path / FILE).stat().st_size < 100
