"""The notation of arrays, and the names of tasks."""

from __future__ import annotations

import pytest

from rankd.core.errors import Refused
from rankd.core.model.array import (
    ArrayRequest,
    ArraySpan,
    JobName,
    by_kind,
    parse_array,
    parse_name,
    shown_name,
    span_of,
)
from rankd.core.model.index_set import EMPTY, parse


def test_the_limit_follows_a_percent_sign() -> None:
    assert parse_array("0-15%4") == ArrayRequest(parse("0-15"), 4)
    assert parse_array("0-15") == ArrayRequest(parse("0-15"), None)


@pytest.mark.parametrize("text", ["0-15%", "0-15%0", "0-15%-1", "0-15%4%4", "%4", "0-9%٤", "0-9%1.5"])
def test_a_limit_below_one_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_array(text)
    assert refused.value.code == "bad_array"


@pytest.mark.parametrize(
    ("name", "job", "indices"),
    [(17, 17, ""), ("17", 17, ""), ("17_3", 17, "3"), ("17_[1-5,9]", 17, "1-5,9"), ("17_[3]", 17, "3")],
)
def test_names_of_jobs_arrays_and_tasks(name: int | str, job: int, indices: str) -> None:
    assert parse_name(name) == JobName(job, parse(indices) if indices else EMPTY)


@pytest.mark.parametrize("name", ["", "x", "17_", "17_[", "17_[]", "17_a", "17-3", "_3", "17_3_4", "9" * 25])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(Refused):
        parse_name(name)


def test_names_are_printed_as_they_are_read() -> None:
    assert [str(parse_name(name)) for name in ("17", "17_3", "17_[1-5,9]", "17_[4]")] == [
        "17",
        "17_3",
        "17_[1-5,9]",
        "17_4",
    ]


def test_records_are_named_as_in_squeue() -> None:
    assert shown_name(17, None, None, None, None) == "17"
    assert shown_name(17, None, None, "4-99", 4) == "17_[4-99%4]"
    assert shown_name(17, None, None, "4-99", None) == "17_[4-99]"
    assert shown_name(40, 17, 3, None, None) == "17_3"


def test_the_span_of_an_irregular_list_has_step_one() -> None:
    assert span_of(parse("1,3,7-9")) == ArraySpan(tasks=5, first=1, last=9, step=1)
    assert span_of(parse("1-7:2")) == ArraySpan(tasks=4, first=1, last=7, step=2)


def test_ids_and_names_of_tasks_are_told_apart() -> None:
    assert by_kind(iter([17, "18_3", "19", 20])) == ([17, 20], ["18_3", "19"])
