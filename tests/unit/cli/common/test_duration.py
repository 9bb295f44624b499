import time
from datetime import datetime

import pytest

from rankd.cli.common.duration import shown_duration, shown_time
from rankd.core.submission.duration import parse_duration

NOW = datetime(2030, 5, 17, 14, 30, 15).astimezone().timestamp()


@pytest.mark.parametrize("seconds", [1, 59, 60, 3599, 3600, 86399, 86400, 10 * 86400 + 5])
def test_what_is_shown_can_be_read_again(seconds):
    assert parse_duration(shown_duration(seconds)) == seconds


def test_no_limit_is_shown_as_unlimited():
    assert shown_duration(None) == "UNLIMITED"


def test_instants_are_shown_in_local_time():
    assert shown_time(NOW) == "2030-05-17T14:30:15"
    assert shown_time(None) == "N/A"
    assert time.tzname, "the machine has a time zone"
