"""``rankd acct --summary``: what the listed jobs used and waited for, per user, account or queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankd.cli.common.layout import Field, column_of
from rankd.core.model.wait_word import WAITED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankd.store.engine.reading import Row

HOUR_S = 3600
GIB = 2**30
KEYS = ("user", "account", "queue")
_USES = {"core_s": "earlier_core_s", "gpu_s": "earlier_gpu_s", "memory_byte_s": "earlier_memory_byte_s"}
"""What is summed, and the field with the runs before the last one."""
_HEADERS = {
    "waited_dependency_s": "WaitDependency",
    "waited_held_s": "WaitHeld",
    "waited_quota_s": "WaitQuota",
    "waited_resources_s": "WaitResources",
    "waited_reserved_s": "WaitReserved",
    "waited_starting_s": "WaitStarting",
}


def summed(
    rows: Sequence[Row],
    key: str,
    uses: dict[str, Callable[[Row], float]],
    since: float | None = None,
    until: float | None = None,
) -> list[dict[str, Any]]:
    """The jobs by their ``key``, with the largest use first. An array counts by its tasks, not once more itself.

    ``uses``: how much of each of :data:`_USES` a job's last run used. Of this run, only what lies between ``since`` and
    ``until`` (UTC seconds) counts; earlier runs, before the job was queued again, and waiting times count whole.
    """
    found: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        if row.get("tasks"):
            continue
        none = {key: row[key], "jobs": 0, "completed": 0, **dict.fromkeys((*_USES, *WAITED), 0.0)}
        one = found.setdefault(row[key], none)
        one["jobs"] += 1
        one["completed"] += row["state"] == "completed"
        within = part_within(row, since, until)
        for name, earlier in _USES.items():
            one[name] += uses[name](row) * within + (row.get(earlier) or 0.0)
        for name in WAITED:
            one[name] += row.get(name) or 0.0
    return sorted(found.values(), key=lambda one: (-one["core_s"], -one["gpu_s"], str(one[key])))


def part_within(row: Row, since: float | None, until: float | None) -> float:
    """The part of the job's last run that lies between these times, 0 to 1. A run that goes on counts as up to now.

    >>> part_within({"started_at": 0.0, "ended_at": 40.0}, 10.0, 30.0)
    0.5
    """
    started, ended = row.get("started_at"), row.get("ended_at")
    if started is None or ended is None or ended <= started:
        return 1.0
    first = started if since is None else max(started, since)
    last = ended if until is None else min(ended, until)
    return float(max(0.0, last - first) / (ended - started))


def columns(key: str) -> list[Field]:
    """The columns of the summary."""
    return [
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
