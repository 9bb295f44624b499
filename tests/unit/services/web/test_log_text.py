"""A job's output is shown as text: bounded, and without what moves a cursor or hides itself."""

from hypothesis import given
from hypothesis import strategies as st

from rankd.services.web.log_text import MOST_BYTES, LogText


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
