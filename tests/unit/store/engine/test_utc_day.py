"""The day of a time."""

import pytest
from sqlalchemy import create_engine, literal, select

from rankd.store.engine.utc_day import utc_day


@pytest.mark.parametrize(
    ("at", "day"),
    [(0.0, "1970-01-01"), (86_399.9, "1970-01-01"), (86_400.0, "1970-01-02"), (1_709_164_800.5, "2024-02-29")],
)
def test_a_day_begins_at_midnight_utc(at, day):
    with create_engine("sqlite://").connect() as connection:
        assert connection.execute(select(utc_day(literal(at)))).scalar_one() == day


def test_no_time_has_no_day():
    with create_engine("sqlite://").connect() as connection:
        assert connection.execute(select(utc_day(literal(None)))).scalar_one() is None
