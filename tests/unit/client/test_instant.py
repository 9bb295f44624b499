"""Slurm's forms of time, from the pages of sbatch, squeue and sacct."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rankd.cli.look.acct import _end
from rankd.client.instant import parse_time
from rankd.core.errors import Refused

BERLIN = ZoneInfo("Europe/Berlin")


def at(*fields, zone=BERLIN, fold=0):
    return datetime(*fields, tzinfo=zone, fold=fold).timestamp()


NOW = at(2030, 5, 17, 14, 30, 15)

BOTH = [
    ("now", NOW),
    ("now+60", NOW + 60),
    ("now-60", NOW - 60),
    ("+5minutes", NOW + 300),
    ("now+2hours", NOW + 7200),
    ("now-1hour", NOW - 3600),
    ("now + 1 day", NOW + 86400),
    ("now-3days", NOW - 3 * 86400),
    ("now+1w", NOW + 604800),
    ("now+010min", NOW + 600),
    ("@1700000000.5", 1_700_000_000.5),
    ("today", at(2030, 5, 17)),
    ("Tomorrow", at(2030, 5, 18)),
    ("yesterday", at(2030, 5, 16)),
    ("yesterday 08:00", at(2030, 5, 16, 8)),
    ("tomorrow-16:00", at(2030, 5, 18, 16)),
    ("16:00 tomorrow", at(2030, 5, 18, 16)),
    ("tomorrow noon", at(2030, 5, 18, 12)),
    ("2031-01-31", at(2031, 1, 31)),
    ("2029-01-31T08:00", at(2029, 1, 31, 8)),
    ("2031-01-31T08:00:09", at(2031, 1, 31, 8, 0, 9)),
    ("2031-01-31 08:00", at(2031, 1, 31, 8)),
    ("2031-01-31T08:00:00+00:00", 1_927_612_800.0),
    ("2031-01-31T08:00:00Z", 1_927_612_800.0),
    ("013129", at(2029, 1, 31)),
    ("01/31/31", at(2031, 1, 31)),
    ("01/31/2031", at(2031, 1, 31)),
    ("1/31/31-08:00", at(2031, 1, 31, 8)),
    ("01.31.29", at(2029, 1, 31)),
    ("013129-23:59:58", at(2029, 1, 31, 23, 59, 58)),
]


@pytest.mark.parametrize("direction", ["past", "future"])
@pytest.mark.parametrize(("text", "expected"), BOTH)
def test_a_time_with_its_day_is_the_same_in_both_directions(text, expected, direction):
    assert parse_time(text, NOW, direction, BERLIN) == expected


@pytest.mark.parametrize(
    ("text", "past", "future"),
    [
        ("08:00", at(2030, 5, 17, 8), at(2030, 5, 18, 8)),
        ("16:30", at(2030, 5, 16, 16, 30), at(2030, 5, 17, 16, 30)),
        ("14:30:15", NOW, NOW),
        ("14:30:16", at(2030, 5, 16, 14, 30, 16), at(2030, 5, 17, 14, 30, 16)),
        ("8:00PM", at(2030, 5, 16, 20), at(2030, 5, 17, 20)),
        ("8:00 am", at(2030, 5, 17, 8), at(2030, 5, 18, 8)),
        ("12:00AM", at(2030, 5, 17), at(2030, 5, 18)),
        ("12:15 PM", at(2030, 5, 17, 12, 15), at(2030, 5, 18, 12, 15)),
        ("midnight", at(2030, 5, 17), at(2030, 5, 18)),
        ("noon", at(2030, 5, 17, 12), at(2030, 5, 18, 12)),
        ("fika", at(2030, 5, 16, 15), at(2030, 5, 17, 15)),
        ("teatime", at(2030, 5, 16, 16), at(2030, 5, 17, 16)),
        ("0131", at(2030, 1, 31), at(2031, 1, 31)),
        ("01/31", at(2030, 1, 31), at(2031, 1, 31)),
        ("12.24", at(2029, 12, 24), at(2030, 12, 24)),
        ("12/24-18:00", at(2029, 12, 24, 18), at(2030, 12, 24, 18)),
        ("1224 18:00", at(2029, 12, 24, 18), at(2030, 12, 24, 18)),
        ("02/29", at(2028, 2, 29), at(2032, 2, 29)),
    ],
)
def test_a_time_that_recurs_is_the_last_one_or_the_next_one(text, past, future):
    assert parse_time(text, NOW, "past", BERLIN) == past
    assert parse_time(text, NOW, "future", BERLIN) == future


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("month", range(1, 13))
def test_a_clock_time_is_never_on_the_wrong_side_of_now_nor_far_away(zone, month):
    zone = ZoneInfo(zone)
    for day in range(1, 29):
        now = at(2030, month, day, 2, 30, zone=zone)
        for text in ("02:15", "02:30", "02:45", "23:59", "midnight"):
            assert 0 <= now - parse_time(text, now, "past", zone) < 25 * 3600
            assert 0 <= parse_time(text, now, "future", zone) - now < 25 * 3600


def test_of_a_repeated_hour_the_nearest_counts():
    first, second = at(2030, 10, 27, 2, 30), at(2030, 10, 27, 2, 30, fold=1)
    assert second - first == 3600
    for now in (first + 60, second - 60):
        assert parse_time("02:30", now, "past", BERLIN) == first
        assert parse_time("02:30", now, "future", BERLIN) == second


def test_a_day_around_a_change_of_the_clock_is_a_day_of_the_calendar():
    now = at(2030, 3, 30, 12)
    assert parse_time("noon tomorrow", now, "future", BERLIN) == now + 23 * 3600
    assert parse_time("now+1day", now, "future", BERLIN) == now + 24 * 3600


def test_a_skipped_time_counts_as_an_hour_later():
    now = at(2030, 3, 31, 1)
    for text in ("02:30", "2030-03-31T02:30"):
        assert parse_time(text, now, "future", BERLIN) == at(2030, 3, 31, 3, 30)


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "25:00", "12:60", "13:00pm", "0:30am", "now+2fortnights", "now-", "2031-13-01", "02/30", "1331",
     "@x", "08:00 09:00", "today tomorrow", "08:00x", "2031-01-31T", "12/24-", "noonish", "99999999999",
     "\u0660\u0668:00"],
)  # fmt: skip
@pytest.mark.parametrize("direction", ["past", "future"])
def test_other_texts_are_refused_with_what_may_be_written(text, direction):
    with pytest.raises(Refused, match=r"not a time; write|unknown unit") as caught:
        parse_time(text, NOW, direction, BERLIN)
    assert caught.value.code == "usage"


def test_without_a_zone_the_machines_counts(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        tokyo = ZoneInfo("Asia/Tokyo")
        now = at(2030, 5, 17, 9, zone=tokyo)
        assert parse_time("08:00", now, "past") == at(2030, 5, 17, 8, zone=tokyo)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (NOW - 6 * 3600, "16:30", "the next"),
        (None, "08:00", "the last"),
        (NOW - 30 * 86400, "yesterday", "the last"),
    ],
)
def test_an_end_that_recurs_is_not_before_the_start(start, end, expected):
    until = _end(end, start, NOW)
    assert start is None or until >= start
    assert until == (parse_time(end, NOW, "past") if expected == "the last" else parse_time(end, start, "future"))


def test_an_end_before_the_start_is_refused_with_both():
    with pytest.raises(Refused, match=r"the end .* is before the start .*"):
        _end("2030-01-01", NOW, NOW)
