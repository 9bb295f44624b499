"""``rankd acct --summary``: what the listed jobs used together, per user, account or queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankd.cli.common.layout import Field, column_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankd.store.engine.reading import Row

HOUR_S = 3600
KEYS = ("user", "account", "queue")


def summed(
    rows: Sequence[Row], key: str, core_s: Callable[[Row], float], gpu_s: Callable[[Row], float]
) -> list[dict[str, Any]]:
    """The jobs by their ``key``, with the largest use first. An array counts by its tasks, not once more itself.

    All runs of a job count: those before it was queued again, too.
    """
    found: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        if row.get("tasks"):
            continue
        one = found.setdefault(row[key], {key: row[key], "jobs": 0, "completed": 0, "core_s": 0.0, "gpu_s": 0.0})
        one["jobs"] += 1
        one["completed"] += row["state"] == "completed"
        one["core_s"] += core_s(row) + (row.get("earlier_core_s") or 0.0)
        one["gpu_s"] += gpu_s(row) + (row.get("earlier_gpu_s") or 0.0)
    return sorted(found.values(), key=lambda one: (-one["core_s"], -one["gpu_s"], str(one[key])))


def columns(key: str) -> list[Field]:
    """The columns of the summary."""
    return [
        column_of(key, key.capitalize()),
        column_of("jobs", "Jobs", numeric=True),
        column_of("completed", "Completed", numeric=True),
        _hours("core_s", "CoreHours"),
        _hours("gpu_s", "GPUHours"),
    ]


def _hours(name: str, header: str) -> Field:
    return Field(header, lambda row: row[name], lambda row: f"{row[name] / HOUR_S:.2f}", numeric=True)
