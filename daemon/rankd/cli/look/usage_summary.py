"""``rankd acct --summary``: what the listed jobs used and waited for, per user, account or queue, and per period."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.cli.common.layout import Field, column_of
from rankd.cli.look.usage_period import Period
from rankd.core.model.wait_word import WAITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rankd.store.engine.reading import Row

HOUR_S = 3600
GIB = 2**30
KEYS = ("user", "account", "queue")
_USES = {"core_s": "earlier_core_s", "gpu_s": "earlier_gpu_s", "memory_byte_s": "earlier_memory_byte_s"}
"""What is summed, and the field with the runs before the last one."""
_GRIDS = {"core_s": 2.0**-16, "gpu_s": 2.0**-16, "memory_byte_s": 2.0**20}
_HEADERS = {
    "waited_dependency_s": "WaitDependency",
    "waited_held_s": "WaitHeld",
    "waited_quota_s": "WaitQuota",
    "waited_resources_s": "WaitResources",
    "waited_reserved_s": "WaitReserved",
    "waited_starting_s": "WaitStarting",
}


class Uses(NamedTuple):
    """How rows are counted. ``amounts``: how much of each of :data:`_USES` a job's last run used.

    ``ended_at``: when this run ended, or up to when a run that goes on is known.
    """

    amounts: Mapping[str, Callable[[Row], float]]
    ended_at: Callable[[Row], float]


def summed(
    rows: Iterable[Row], key: str, uses: Uses, since: float | None = None, until: float | None = None
) -> list[dict[str, Any]]:
    """The jobs by their ``key``, with the largest use first. An array counts by its tasks, not once more itself.

    Of a job's last run, only what lies between ``since`` and ``until`` (UTC seconds) counts; earlier runs, before the
    job was queued again, and waiting times count whole.
    """
    return _ordered(_sums(rows, key, uses, [Period("", _or(since, -inf), _or(until, inf))]))


def summed_per(rows: Iterable[Row], key: str, uses: Uses, parts: Sequence[Period]) -> list[dict[str, Any]]:
    """The same for each of these periods, which follow each other. The numbers add up to those of the whole time.

    A job's last run is divided. The job itself, its waiting times and its earlier runs count in the period in which it
    was submitted; in the first one, if that was before.
    """
    return _ordered(_sums(rows, key, uses, parts))


def _or(at: float | None, otherwise: float) -> float:
    return otherwise if at is None else at


def _sums(rows: Iterable[Row], key: str, uses: Uses, parts: Sequence[Period]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str | None], dict[str, Any]] = {}

    def sums(part: Period, row: Row) -> dict[str, Any]:
        none = {"jobs": 0, "completed": 0, **dict.fromkeys((*_USES, *WAITED), 0.0)}
        return found.setdefault((part.name, row[key]), {"period": part.name, key: row[key], **none})

    for row in rows:
        if row.get("tasks"):
            continue
        one = sums(_submitted_in(parts, row), row)
        one["jobs"] += 1
        one["completed"] += row["state"] == "completed"
        for name, earlier in _USES.items():
            one[name] += _on_grid(name, row.get(earlier) or 0.0)
        for name in WAITED:
            one[name] += row.get(name) or 0.0
        _divide(row, uses, parts, sums)
    return list(found.values())


def _submitted_in(parts: Sequence[Period], row: Row) -> Period:
    at = row.get("submitted_at") or -inf
    return next((part for part in reversed(parts) if part.since <= at), parts[0])


def _divide(row: Row, uses: Uses, parts: Sequence[Period], sums: Callable[[Period, Row], dict[str, Any]]) -> None:
    """Count the last run in each period: what it had used at its end, less what it had used at its beginning."""
    started = row.get("started_at")
    ended = uses.ended_at(row) if started is not None else None
    for name, amount in uses.amounts.items():
        whole = amount(row)
        if started is None or ended is None or ended <= started:
            sums(_submitted_in(parts, row), row)[name] += _on_grid(name, whole)
            continue
        for part in parts:
            if part.since < ended and part.until > started:
                first, last = (
                    _on_grid(name, whole * ((min(max(at, started), ended) - started) / (ended - started)))
                    for at in (part.since, part.until)
                )
                sums(part, row)[name] += last - first


def _on_grid(name: str, amount: float) -> float:
    """The amount as a multiple of a power of two: sums and differences of such numbers are exact."""
    grid = _GRIDS[name]
    return round(amount / grid) * grid


def _ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: (one["period"], -one["core_s"], -one["gpu_s"], str(list(one.values())[1])))


def columns(key: str, *, per: bool = False) -> list[Field]:
    """The columns of the summary. ``per``: of several periods."""
    return [
        *([column_of("period", "Period")] if per else []),
        column_of(key, key.capitalize()),
        column_of("jobs", "Jobs", numeric=True),
        column_of("completed", "Completed", numeric=True),
        _hours("core_s", "CoreHours"),
        _hours("gpu_s", "GPUHours"),
        _hours("memory_byte_s", "GiBHours", GIB),
        *(_hours(name, header) for name, header in _HEADERS.items()),
    ]


def _hours(name: str, header: str, unit: int = 1) -> Field:
    return Field(header, lambda row: row[name], lambda row: f"{row[name] / HOUR_S / unit:.2f}", numeric=True)
