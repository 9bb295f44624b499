import pytest

from rankd.cli.common.layout import Field, column_of, formatted, ordered, table_rows
from rankd.cli.common.table import Column, lines
from rankd.core.errors import Refused

COLUMNS = [Column("ID", numeric=True), Column("NAME"), Column("NOTE")]
ROWS = [["7", "short", "x"], ["1234", "a much longer name", "another long text"]]

FIELDS = {
    "i": column_of("id", "JOBID", numeric=True),
    "u": column_of("user", "USER"),
    "r": column_of("rank", "RANK", none="-"),
    "T": Field("STATE", lambda row: row["state"], lambda row: row["state"].upper()),
}
JOBS = [
    {"id": 1, "user": "alice", "rank": 2, "state": "pending"},
    {"id": 10, "user": "bob", "rank": None, "state": "running"},
    {"id": 9, "user": "alice", "rank": 1, "state": "pending"},
]


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


def test_fields_show_what_is_missing_as_they_say():
    assert table_rows(list(FIELDS.values()), JOBS[1:2]) == [["10", "bob", "-", "RUNNING"]]


def test_formats_pad_cut_and_copy():
    assert formatted("%.5i|%3u|%T", FIELDS, JOBS[:2], header=True) == [
        "JOBID|USE|STATE",
        "    1|ali|PENDING",
        "   10|bob|RUNNING",
    ]
    assert formatted("%i %u", FIELDS, JOBS[:1], header=False) == ["1 alice"]


def test_a_format_with_an_unknown_letter_names_the_known_ones():
    with pytest.raises(Refused, match=r"unknown field '%x'; known: %i JOBID, .*%T STATE"):
        formatted("%i %x", FIELDS, JOBS, header=True)


def test_a_format_without_a_field_is_refused():
    with pytest.raises(Refused, match="names no field"):
        formatted("plain", FIELDS, JOBS, header=True)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("i", [1, 9, 10]),
        ("-i", [10, 9, 1]),
        ("u,-i", [9, 1, 10]),
        ("r", [9, 1, 10]),
        ("-r", [1, 9, 10]),
        ("+u,i", [1, 9, 10]),
    ],
)
def test_sorting_is_by_value_with_missing_ones_last(keys, expected):
    assert [row["id"] for row in ordered(keys, FIELDS, JOBS)] == expected


def test_sorting_by_an_unknown_letter_is_refused():
    with pytest.raises(Refused, match="unknown field '%z'"):
        ordered("z", FIELDS, JOBS)
