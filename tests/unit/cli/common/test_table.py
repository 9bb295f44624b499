import csv

import pytest

from rankd.cli.common.table import Column, lines, print_separated

COLUMNS = [Column("ID", numeric=True), Column("NAME"), Column("NOTE")]
ROWS = [["7", "short", "x"], ["1234", "a much longer name", "another long text"]]


def test_numbers_stand_to_the_right_and_nothing_is_cut_in_a_pipe():
    assert lines(COLUMNS, ROWS) == [
        "  ID NAME               NOTE",
        "   7 short              x",
        "1234 a much longer name another long text",
    ]


def test_without_a_header_columns_are_as_wide_as_their_rows():
    assert lines(COLUMNS, [["7", "a", "b"]], header=False) == ["7 a b"]


def test_no_rows_leave_the_header_alone():
    assert lines(COLUMNS, []) == ["ID NAME NOTE"]
    assert lines(COLUMNS, [], header=False) == []


def test_an_empty_cell_keeps_the_places_of_the_others():
    assert lines(COLUMNS, [["", "", "x"], ["7", "short", ""]], header=False) == ["- -     x", "7 short -"]


def test_a_column_of_a_given_width_is_cut_and_marked_also_in_a_pipe():
    columns = [Column("ID", numeric=True, width=3), Column("NAME", width=7)]
    assert lines(columns, [row[:2] for row in ROWS], terminal_width=4) == [" ID NAME", "  7 short", "12+ a much+"]


@pytest.mark.parametrize("width", [40, 30, 24])
def test_on_a_terminal_texts_are_cut_to_its_width_and_numbers_are_not(width):
    written = lines(COLUMNS, ROWS, terminal_width=width)
    assert max(map(len, written)) <= width
    assert written[2].startswith("1234 ")
    assert "…" in written[2]


def test_columns_stay_readable_on_the_narrowest_terminal():
    assert lines(COLUMNS, ROWS, terminal_width=3)[2] == "1234 a much … another…"


def test_a_header_is_bold_where_colour_is_wanted():
    assert lines(COLUMNS, ROWS, colour=True)[0].startswith("\x1b[1m")
    assert lines(COLUMNS, ROWS, colour=True, header=False)[0] == "   7 short              x"


def test_a_text_in_csv_is_no_formula_and_a_number_is_a_number(capsys):
    hostile = ['=HYPERLINK("http://x")', "+1", "-cmd", "@SUM(1)", "\t=1", " =1", "\uff1d1"]
    print_separated(["Name", "Left"], [[name, "-5.2"] for name in hostile], csv_texts=[0])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header == "Name,Left"
    assert [next(csv.reader([line]))[1] for line in lines] == ["-5.2"] * len(hostile)
    first = [next(csv.reader([line]))[0] for line in lines]
    assert [cell[0] for cell in first] == ["'"] * len(hostile)
    assert first[0] == """'=HYPERLINK("http://x")"""
    print_separated(None, [["=1", "-2"]], csv_texts=None)
    assert capsys.readouterr().out == "=1|-2\n"
