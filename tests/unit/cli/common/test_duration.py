import time
from datetime import datetime

import pytest

from rankd.cli.common.duration import in_local_time, shown_duration, shown_time
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
    assert shown_time(1e34) == "N/A", "one such record must not keep a list from being shown"
    assert time.tzname, "the machine has a time zone"


def test_instants_in_a_text_are_shown_in_local_time(monkeypatch):
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        assert in_local_time("from 2026-11-28T20:12:14Z on") == "from 2026-11-29T05:12:14 on"
        assert in_local_time("9999-99-99T20:12:14Z") == "9999-99-99T20:12:14Z"
    finally:
        monkeypatch.undo()
        time.tzset()
