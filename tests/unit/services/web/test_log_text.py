"""A job's output is shown as text: bounded, and without what moves a cursor or hides itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.errors import Unavailable
from rankd.services.web import log_feed
from rankd.services.web.log_feed import LogFeed, Wanted
from rankd.services.web.log_text import MOST_BYTES, LogText
from rankd.services.web.template import Template
from rankd.wire.session import JobLog


def shown(*parts):
    log = LogText()
    for part in parts:
        log.take(part)
    return log.shown()


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_become_text_that_can_be_seen(parts):
    text = shown(*parts)
    assert all(character in "\n\t\ufffd" or character.isprintable() or character.isspace() or ord(character) > 0x2FF
               for character in text)  # fmt: skip
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_newest_part_is_kept_and_begins_with_a_line():
    lines = [b"%07d\n" % number for number in range(10_000)]
    text = shown(*lines)
    assert text.endswith("0009999\n")
    assert MOST_BYTES - 8 <= len(text) <= MOST_BYTES
    assert len(text.split("\n")[0]) == 7


def test_one_endless_line_is_bounded_too():
    assert len(shown(b"x" * 10 * MOST_BYTES)) == MOST_BYTES


def test_a_character_that_came_in_two_parts_is_one():
    assert shown("ä".encode()[:1]) == ""
    assert shown("ä".encode()[:1], "ä".encode()[1:]) == "ä"


def test_what_turns_the_reading_direction_is_replaced():
    assert shown("a\u202eb\u2066".encode()) == "a\ufffdb\ufffd"


def test_what_a_job_writes_is_text_on_the_page_whatever_it_is():
    log = LogText()
    log.take(b"</code></pre><script>alert(1)</script><img src=x onerror='alert(2)'>{{ 7 * 7 }}\n")
    shown = LogFeed(None, Template(lambda: 0.0))._html(log, "<b>over</b>")
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<b>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "{{ 7 * 7 }}" in shown


async def test_the_logs_of_one_user_leave_room_for_those_of_others(monkeypatch):
    monkeypatch.setattr(log_feed, "MOST_LOGS_PER_USER", 2)
    monkeypatch.setattr(log_feed, "MOST_LOGS", 3)
    feed = LogFeed(None, Template(lambda: 0.0))
    wanted = {user: Wanted(user, JobLog(id=1), None, None) for user in ("alice", "bob", "carol")}
    streams = [feed.follow(wanted[user]) for user in ("alice", "alice", "bob")]
    for stream in streams:
        assert (await anext(stream)).startswith(b"retry")
    for user in ("alice", "carol"):
        with pytest.raises(Unavailable, match="too many logs"):
            feed.check_room(user)
        assert [b"event: end" in event async for event in feed.follow(wanted[user])] == [True]
    for stream in streams:
        await stream.aclose()
    feed.check_room("alice")
