"""No text of others moves a cursor, hides or reorders."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.printable import printable

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)]
BIDI = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
HIDDEN = [chr(code) for code in (0xAD, 0x115F, 0x200B, 0x200D, 0x2060, 0x3164, 0xFEFF, 0xE0041, 0xE000, 0x378, 0xDCFF)]
TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize("character", [*CONTROLS, *BIDI, *HIDDEN], ids=ascii)
def test_what_does_not_show_is_escaped_as_in_json(character):
    escaped = printable(f"a{character}b")
    assert escaped.isascii()
    assert json.loads(f'"{escaped}"') == f"a{character}b"


@pytest.mark.parametrize(
    "text", ["", "plain", "Grüße", "日本語", "e\u0301", "👍🏽", "❤\ufe0f", "a b", "a\u00a0b", "\\n", '"']
)
def test_what_shows_stays(text):
    assert printable(text) == text


def test_no_character_of_a_category_that_does_not_show_gets_through():
    bad = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    through = [chr(code) for code in range(sys.maxunicode + 1) if printable(chr(code)) == chr(code)]
    assert not [character for character in through if unicodedata.category(character) in bad]


@given(TEXT)
def test_escaping_twice_is_escaping_once(text):
    assert printable(printable(text)) == printable(text)


@given(TEXT)
def test_json_stays_the_same_json(text):
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text
