"""A screen's columns are counted as terminals do; no text of others moves a cursor."""

import io
import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankd.cli.common.screen import Guarded, columns, cut, left, right
from rankd.cli.common.table import Column, lines, separated
from rankd.core.printable import printable

TEXT = st.text(st.characters(exclude_categories=[]))


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
