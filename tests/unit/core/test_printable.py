"""No text of others moves a cursor, hides or reorders; a screen's columns are counted as terminals do."""

import io
import json
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankd.cli.common.screen import Guarded, columns, cut, left, right
from rankd.cli.common.table import Column, lines, separated
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


@given(TEXT, st.integers(1, 30))
def test_a_cut_text_fits_and_is_a_beginning(text, width):
    shown = printable(text)
    short = cut(shown, width)
    assert columns(short) <= width
    assert short == shown or (short.endswith("…") and shown.startswith(short[:-1]))


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("日本語", 5, "日本…"), ("日本語", 4, "日…"), ("ae\u0301b", 2, "a…"), ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
     ("🇩🇪🇫🇷🇮🇹", 3, "🇩🇪…"), ("❤\ufe0fabc", 3, "❤\ufe0f…"), ("abc", 3, "abc"), ("abcd", 1, "…")],
)  # fmt: skip
def test_nothing_is_cut_in_its_middle(text, width, shown):
    assert cut(text, width) == shown


@example([("\x1f\U00018cd6", "\U00016f51")], 20)  # a mark that takes a column behind a space
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), st.integers(20, 60))
def test_columns_of_a_table_begin_at_the_same_place(rows, width):
    cells = [[name, "#", user] for name, user in rows]
    for shown in lines([Column("NAME"), Column("X"), Column("USER")], cells, header=False):
        assert "\n" not in shown
    fitted = lines([Column("NAME"), Column("X", True), Column("USER")], cells, header=False, terminal_width=width)
    assert len(fitted) == len(rows)
    assert all(columns(shown) <= width for shown in fitted)


def test_wide_names_align():
    rows = [["日本", "a"], ["ab", "b"], ["e\u0301", "c"]]
    assert lines([Column("NAME"), Column("U")], rows) == ["NAME U", "日本 a", "ab   b", "e\u0301    c"]


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_a_record_is_one_line_with_all_its_fields(cells):
    record = separated(cells)
    assert len(record.splitlines()) <= 1
    assert (
        [json.loads(f'"{part}"') for part in record.split("|")] == cells
        if all("\\" not in cell and '"' not in cell for cell in cells)
        else len(record.split("|")) == len(cells)
    )


@given(TEXT, st.integers(0, 20))
def test_filled_text_has_its_width(text, width):
    shown = cut(printable(text), width, end="")
    assert columns(left(shown, width)) == columns(right(shown, width)) == width


def test_a_guarded_stream_passes_lines_and_its_own_bold_only(capsys):
    with_net = Guarded(sys.stdout)
    with_net.write("\x1b[1mHEAD\x1b[0m\na\tb\x1b[31m\x9b\u202e\n")
    assert capsys.readouterr().out == "\x1b[1mHEAD\x1b[0m\na\tb\\u001b[31m\\u009b\\u202e\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_a_character_shows_its_escape(encoding):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)
    Guarded(terminal).write("é 日\n")
    assert json.loads(f'"{terminal.buffer.getvalue().decode(encoding).strip()}"'.replace("\\x", "\\u00")) == "é 日"
