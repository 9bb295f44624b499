"""Services that give no sign of life, and what that means to users. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SILENT_S = 15.0
CONSEQUENCES = {
    "intake": "nothing can be submitted or changed, and jobs that end stay in the list",
    "prioritizer": "the order is that of the last ranking, and newer jobs have no rank",
    "scheduler": "no job starts",
}


class Silence(NamedTuple):
    """A service, for how long it has been silent (seconds), and what that means."""

    service: str
    seconds: float
    consequence: str


def silent(services: Sequence[Mapping[str, Any]], now: float) -> list[Silence]:
    """The silent ones of those that users depend on. ``services``: with ``name`` and ``alive_at`` (UTC seconds)."""
    return [
        Silence(row["name"], now - row["alive_at"], CONSEQUENCES[row["name"]])
        for row in services
        if row["name"] in CONSEQUENCES and now - row["alive_at"] > SILENT_S
    ]


def are_all(found: Sequence[Silence]) -> bool:
    """Whether every service that users depend on is silent: all are stopped, or none can write to the database."""
    return {one.service for one in found} == CONSEQUENCES.keys()
