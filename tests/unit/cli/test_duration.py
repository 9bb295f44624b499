import time
from datetime import datetime

import pytest

from rankd.cli.duration import parse_duration, parse_time, shown_duration, shown_time
from rankd.core.errors import Refused

NOW = datetime(2030, 5, 17, 14, 30, 15).astimezone().timestamp()


def local(*fields):
    return datetime(*fields).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 60), ("90", 5400), ("1:30", 90), ("1:00:00", 3600), ("2-0", 172800), ("1-2:3", 93780),
        ("1-00:00:01", 86401), ("45s", 45), ("2h", 7200), ("1w", 604800), ("UNLIMITED", None), ("infinite", None),
    ],
)  # fmt: skip
def test_time_limits_are_slurms_forms(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "-5", "1-", "1-x", "a-1", "1.5", "0", "0:0", "1d2"])
def test_other_time_limits_are_refused(text):
    with pytest.raises(Refused, match="time") as caught:
        parse_duration(text)
    assert caught.value.code == "usage"


@pytest.mark.parametrize("seconds", [1, 59, 60, 3599, 3600, 86399, 86400, 10 * 86400 + 5])
def test_what_is_shown_can_be_read_again(seconds):
    assert parse_duration(shown_duration(seconds)) == seconds


def test_no_limit_is_shown_as_unlimited():
    assert shown_duration(None) == "UNLIMITED"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW),
        ("now+60", NOW + 60),
        ("+5minutes", NOW + 300),
        ("now+2hours", NOW + 7200),
        ("now + 1 day", NOW + 86400),
        ("now+1w", NOW + 604800),
        ("@1700000000.5", 1_700_000_000.5),
        ("16:30", local(2030, 5, 17, 16, 30)),
        ("08:00:30", local(2030, 5, 18, 8, 0, 30)),
        ("noon", local(2030, 5, 18, 12)),
        ("midnight", local(2030, 5, 18)),
        ("tomorrow", local(2030, 5, 18)),
        ("today", local(2030, 5, 17)),
        ("2031-01-31", local(2031, 1, 31)),
        ("2031-01-31T08:00", local(2031, 1, 31, 8)),
        ("2031-01-31T08:00:00+00:00", 1_927_612_800.0),
    ],
)
def test_begin_times_are_sbatchs_forms(text, at):
    assert parse_time(text, NOW) == at


@pytest.mark.parametrize("text", ["", "soon", "25:00", "now+2fortnights", "2031-13-01", "@x", "now+"])
def test_other_begin_times_are_refused(text):
    with pytest.raises(Refused, match=r"begin|time|unit"):
        parse_time(text, NOW)


def test_instants_are_shown_in_local_time():
    assert shown_time(NOW) == "2030-05-17T14:30:15"
    assert shown_time(None) == "N/A"
    assert time.tzname, "the machine has a time zone"
