"""The templates, and how they show amounts, times and texts of users. Everything is escaped, also invisible characters.

A template gets records and asks nothing. It computes nothing but what it shows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from rankd.core.model.array import shown_list, shown_name
from rankd.core.model.nodelist import fold
from rankd.core.placement.constraint import shown_constraints
from rankd.core.printable import printable
from rankd.core.words import REASONS
from rankd.services.runtime.clock import Clock
from rankd.services.web.bar import bar
from rankd.services.web.lapse import lapse
from rankd.services.web.silence import are_all

NONE = "\N{EN DASH}"
"""What is shown where there is no value."""
LEAST_SHARE = 0.0005
"""A smaller part would be shown as none."""
MOST_CHARACTERS = 2_000
"""Of one text; what is longer is cut."""


class Template:
    """Renders templates of ``templates/``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._environment = Environment(
            loader=PackageLoader("rankd.services.web"), autoescape=True, finalize=_shown,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters |= {
            "lapse": lapse, "instant": _instant, "whole": _whole, "points": _points, "share": _share,
            "amounts": _amounts, "percent": _percent, "nodelist": _nodelist, "brief": _brief, "words": _words,
            "chart": escape, "places": shown_constraints,
        }  # fmt: skip
        self._environment.globals |= {
            "job_name": _job_name,
            "reason": _reason,
            "bar": bar,
            "min": min,
            "max": max,
            "are_all": are_all,
        }

    def render(self, name: str, **given: Any) -> str:  # noqa: ANN401 - whatever a template shows
        """The template with these values; ``now`` is there too."""
        return self._environment.get_template(name).render(now=self._clock(), **given)


def _shown(value: Any) -> Any:  # noqa: ANN401 - any value
    """What a template prints: texts without invisible characters, cut to a length that a page can show."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}…")


def _instant(at: float | None) -> Markup | str:
    """A time, in UTC; the script of the page shows it in the visitor's own time zone."""
    if at is None:
        return NONE
    try:
        found = time.gmtime(at)
    except (OverflowError, ValueError, OSError):  # no date; one record must not keep a whole page from being shown
        return NONE
    iso, shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", found), time.strftime("%Y-%m-%d %H:%M:%S UTC", found)
    return Markup('<time datetime="{}">{}</time>').format(iso, shown)


def _brief(seconds: float) -> str:
    """A short duration: ``0.4 ms``, ``12 ms``, ``1.3 s``."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def _whole(value: float | None) -> str:
    """12,345."""
    return NONE if value is None else f"{value:,.0f}"


def _points(value: float | None) -> str:
    """1,234.50."""
    return NONE if value is None else f"{value:,.2f}"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def _percent(value: float | None) -> str:
    if value is None:
        return NONE
    return "<0.1%" if 0 < value < LEAST_SHARE else f"{value:.1%}"


_KINDS = {"vcore": "cores"}


def _amounts(amounts: Mapping[str, float]) -> str:
    """``cores 4, memory 2 GiB``; a dash for none."""
    return (
        ", ".join(f"{_KINDS.get(kind, kind)} {_amount(kind, amount)}" for kind, amount in sorted(amounts.items()))
        or NONE
    )


def _amount(kind: str, amount: float) -> str:
    if kind != "memory":
        return f"{amount:g}"
    power = next(power for power in (3, 2, 1, 0) if amount >= 1024**power or not power)
    return f"{amount / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def _words(name: str | None) -> str:
    """A name of the records as people write it: ``out of memory``."""
    return NONE if name is None else name.replace("_", " ")


def _nodelist(names: list[str] | str | None) -> str:
    return NONE if not names else names if isinstance(names, str) else fold(names)


def _job_name(row: Mapping[str, Any]) -> str:
    """How people name a job: ``17``, ``17_3`` for a task, ``17_[4-9]`` for an array."""
    return shown_name(row["id"], row.get("array_job"), row.get("array_task"), shown_list(row.get("array")), None)


def _reason(row: Mapping[str, Any]) -> str:
    """Why a job waits, as a sentence without its subject."""
    found = row.get("reason")
    if not found:
        return "it is next, or not looked at yet"
    fact = row.get("reason_fact")
    return REASONS.get(found, str(found)) + (f": {fact}" if fact else "")
