import time
from datetime import datetime

import pytest

from rankd.cli.common.duration import parse_duration, shown_duration, shown_time
from rankd.core.errors import Refused

NOW = datetime(2030, 5, 17, 14, 30, 15).astimezone().timestamp()


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


def test_instants_are_shown_in_local_time():
    assert shown_time(NOW) == "2030-05-17T14:30:15"
    assert shown_time(None) == "N/A"
    assert time.tzname, "the machine has a time zone"
