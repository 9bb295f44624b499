"""Columns of looking commands: ``-o`` formats and ``-S`` sorting."""

import pytest

from rankd.cli.common.layout import Field, column_of, formatted, ordered, table_rows
from rankd.cli.common.table import Column
from rankd.core.errors import Refused

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


def test_fields_show_what_is_missing_as_they_say():
    assert table_rows(list(FIELDS.values()), JOBS[1:2]) == [["10", "bob", "-", "RUNNING"]]


def test_formats_pad_cut_and_copy():
    assert formatted("%.5i|%3u|%T", FIELDS, JOBS[:2], header=True) == [
        "JOBID|USE|STATE",
        "    1|ali|PENDING",
        "   10|bob|RUNNING",
    ]
    assert formatted("%i %u", FIELDS, JOBS[:1], header=False) == ["1 alice"]


def test_what_is_missing_leaves_its_place_where_only_blanks_separate_the_fields():
    fields = FIELDS | {"k": column_of("comment", "COMMENT")}
    assert formatted("%i %k %u", fields, JOBS[:1], header=False) == ["1 - alice"]
    assert formatted("%i %3k%u", fields, JOBS[:1], header=False) == ["1 -  alice"]
    assert formatted("%i|%k|%u", fields, JOBS[:1], header=False) == ["1||alice"]


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
    with pytest.raises(Refused, match="unknown field 'z'; known: i JOBID, "):
        ordered("z", FIELDS, JOBS)


def test_a_value_that_is_no_text_stays_on_one_line():
    field = Field("NAME", lambda row: row["name"])
    assert field.shown({"name": "two\nlines"}) == "two\\nlines"
    assert field.shown({"name": None}) == ""
    assert field.column() == Column("NAME", numeric=False)
