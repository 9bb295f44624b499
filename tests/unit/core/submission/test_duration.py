"""Durations as people write them."""

import pytest

from rankd.core.errors import Refused
from rankd.core.submission.duration import parse_duration


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
