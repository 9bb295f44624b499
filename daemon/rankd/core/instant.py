"""Instants as text. The calendar is computed here, because the core must not import a module with a clock."""

from __future__ import annotations

_DAY_S = 86400
_ERA_DAYS = 146_097
"""400 years, after which the calendar repeats."""


def shown_instant(at: float) -> str:
    """UTC seconds as an ISO 8601 text, rounded down to whole seconds. For the years 1 to 9999.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``. Its years begin in March.

    >>> shown_instant(1709210096.7)
    '2024-02-29T12:34:56Z'
    """
    days, seconds = divmod(int(at // 1), _DAY_S)
    era, day_of_era = divmod(days + 719_468, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (month <= 2)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds % 60:02}Z"


def shown_length(seconds: float) -> str:
    """A length of time as squeue's TIME: ``m:ss``, ``h:mm:ss``, ``d-hh:mm:ss``, rounded down to whole seconds.

    >>> [shown_length(s) for s in (5, 3723, 93784.9, -1)]
    ['0:05', '1:02:03', '1-02:03:04', '0:00']
    """
    days, rest = divmod(max(0, int(seconds)), _DAY_S)
    hours, rest = divmod(rest, 3600)
    minutes, whole = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{whole:02}"
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
