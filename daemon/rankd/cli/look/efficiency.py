"""Fields of ``rankd acct``: what a job used beside what it asked for, in percent, and its waiting time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.duration import shown_duration
from rankd.cli.common.layout import Field
from rankd.core.model.wait_word import WAITED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankd.store.engine.reading import Row


def efficiency_fields(core_s: Callable[[Row], float], elapsed_s: Callable[[Row], float]) -> list[Field]:
    """The fields. ``core_s``: the seconds of cores that the job had. They are empty while nothing was measured."""

    def mean_cores(row: Row) -> float | None:
        elapsed = elapsed_s(row)
        return row["cpu_s"] / elapsed if row.get("cpu_s") is not None and elapsed > 0 else None

    def of_cores(row: Row) -> float | None:
        had = core_s(row)
        return row["cpu_s"] / had if row.get("cpu_s") is not None and had > 0 else None

    return [
        Field("MeanCPUs", mean_cores, lambda row: _shown(mean_cores(row), "{:.2f}"), numeric=True),
        _percent("CPUEff", of_cores),
        _percent("MemEff", of_memory),
        _percent("GPUEff", lambda row: row.get("gpu_utilisation")),
        Field("Waited", waited_s, lambda row: "" if (s := waited_s(row)) is None else shown_duration(s), numeric=True),
    ]


def of_memory(row: Row) -> float | None:
    """The peak on the node with the most, beside what was asked for on each node; None without a limit or measure.

    >>> of_memory({"max_rss_bytes": 2**30, "resources": {"memory": 4 * 2**30}})
    0.25
    """
    asked = (row.get("resources") or {}).get("memory")
    return row["max_rss_bytes"] / asked if asked and row.get("max_rss_bytes") is not None else None


def waited_s(row: Row) -> float | None:
    """Its time up to its first start, or up to its end; None while that is not known."""
    parts = [row.get(name) for name in WAITED]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _percent(header: str, value: Callable[[Row], float | None]) -> Field:
    return Field(header, value, lambda row: "" if (part := value(row)) is None else f"{100 * part:.0f}%", numeric=True)


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
