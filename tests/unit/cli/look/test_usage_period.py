import pytest

from rankd.cli.look.usage_period import periods
from rankd.core.errors import Refused

HOUR_S = 3600.0


@pytest.mark.parametrize("length", ["day", "week", "month"])
def test_periods_follow_each_other_without_gaps(length):
    since, until = 1_762_300_800.0 + HOUR_S, 1_770_000_000.0
    found = periods(since, until, length)
    assert (found[0].since, found[-1].until) == (since, until)
    assert [one.until for one in found[:-1]] == [one.since for one in found[1:]]
    assert sorted({one.name for one in found}) == [one.name for one in found]
    assert len(periods(since, since + 1.0, length)) == 1


def test_weeks_begin_on_monday_and_months_on_the_first():
    since, until = 1_762_300_800.0, 1_767_571_200.0  # 2025-11-05 to 2026-01-05, at midnight UTC
    assert [part.name for part in periods(since, until, "month")][:3] == ["2025-11-01", "2025-12-01", "2026-01-01"]
    assert {part.name for part in periods(since, until, "week")} >= {"2025-11-10", "2025-12-29"}
    with pytest.raises(Refused, match="more than 1000 days"):
        periods(0.0, until, "day")
