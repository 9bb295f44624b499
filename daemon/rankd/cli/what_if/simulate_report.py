"""The output of ``rankd simulate``: a table of one or several simulations, JSON, and the starts as CSV."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.cli.common.screen import print_line
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.core.simulate.simulator import Simulation
    from rankd.core.simulate.statistic import GroupStatistic, PartitionStatistic, Statistic

MOST_SHOWN = 10
"""The most users and accounts of a list."""

_LINES = (
    ("jobs", "jobs", "{:,.0f}"),
    ("makespan_s", "makespan (s)", "{:,.0f}"),
    ("utilisation", "utilisation", "{:.4f}"),
    ("mean_wait_s", "mean wait (s)", "{:,.1f}"),
    ("p50_wait_s", "median wait (s)", "{:,.1f}"),
    ("p90_wait_s", "90 % wait up to (s)", "{:,.1f}"),
    ("p95_wait_s", "95 % wait up to (s)", "{:,.1f}"),
    ("p99_wait_s", "99 % wait up to (s)", "{:,.1f}"),
    ("mean_bounded_slowdown", "mean bounded slowdown", "{:,.3f}"),
    ("p95_bounded_slowdown", "95 % bounded slowdown", "{:,.3f}"),
    ("max_bounded_slowdown", "largest bounded slowdown", "{:,.1f}"),
)


class Simulated(NamedTuple):
    """One simulation: its configuration's directory, the result, how long it took, and the machine's processors."""

    config: str | None
    simulation: Simulation
    statistic: Statistic
    elapsed_s: float
    processors: int


def result(done: Simulated) -> dict[str, Any]:
    """The statistics of one simulation for JSON. Only ``elapsed_s`` and ``jobs_per_s`` differ between two runs."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(done.statistic)
    if done.config is not None:
        found = {"config": done.config, **found}
    speed = done.statistic.jobs / done.elapsed_s if done.elapsed_s else None
    return {**found, "elapsed_s": done.elapsed_s, "jobs_per_s": speed}


def write_json(path: str, done: Sequence[Simulated]) -> None:
    """Write one simulation as an object, several as ``simulations`` with their comparison."""
    import msgspec

    from rankd.core.simulate.comparison import compare

    if len(done) == 1:
        document: object = result(done[0])
    else:
        compared = [compare(done[0].statistic, one.statistic) for one in done[1:]]
        document = {"simulations": [result(one) for one in done], "comparison": msgspec.to_builtins(compared)}
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    _write(path, text)


def write_starts(path: str, done: Simulated) -> None:
    """Write the jobs as CSV, in the order of submission. A job that never started has no start and no end."""
    work, lines = done.simulation.work, ["job,submit_s,start_s,end_s"]
    for job, start_s in zip(work.jobs, done.simulation.starts_s.tolist(), strict=True):
        begun = start_s == start_s  # noqa: PLR0124 - NaN differs from itself
        times = (job.submit_s, start_s if begun else None, start_s + job.run_s if begun else None)
        lines.append(",".join([job.number, *("" if at is None else f"{at:.15g}" for at in times)]))
    _write(path, "\n".join(lines) + "\n")


def check_writable(option: str, path: str | None) -> None:
    """Check, before anything is simulated, that a result can be written there.

    Raises:
        Refused: ``usage``: its directory is missing, or may not be written.
    """
    if path is None or path == "-":
        return
    parent = Path(path).absolute().parent
    why = "it is a directory" if Path(path).is_dir() else None
    if not parent.is_dir():
        why = f"there is no directory {parent}"
    elif not os.access(path if Path(path).exists() else parent, os.W_OK):
        why = "permission denied"
    if why is not None:
        raise Refused("usage", f"--{option}: {path} can't be written: {why}", option)


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused("usage", f"{path} can't be written: {error.strerror}") from None


def print_report(done: Sequence[Simulated]) -> None:
    """Print the statistics side by side, then who waits how long."""
    _print_left_out(done)
    names = [one.config or "simulated" for one in done]
    _print_columns(["", *names], [[label, *_values(done, field, form)] for field, label, form in _LINES])
    for one in done:
        if len(done) > 1:
            print_line(f"{one.config}:")
        _print_fairness(one.statistic)
    if len(done) == 1:
        _print_partitions(done[0].statistic.by_partition)
        _print_groups("by size (processors)", done[0].statistic.by_size)
        _print_groups("by run time", done[0].statistic.by_run_time)
        _print_groups("by account", _largest(done[0].statistic.by_account))
    else:
        _print_comparisons(done)
    for one in done:
        speed = one.statistic.jobs / one.elapsed_s if one.elapsed_s else 0.0
        print_line(f"{one.config or 'simulated'}: {one.elapsed_s:.1f} s, {speed:,.0f} jobs per second")


def _print_left_out(done: Sequence[Simulated]) -> None:
    out = done[0].statistic.left_out
    print_line(
        f"left out: {out.no_run_time} without a run time, {out.no_limit} without a time limit,"
        f" {out.no_size} without a size, {out.too_large} larger than the machine"
    )
    for one in done:
        if number := one.statistic.never_started:
            whose = f"{one.config}: " if len(done) > 1 else ""
            print_line(
                f"{whose}{number} {'job' if number == 1 else 'jobs'} never started: no nodes, or no queue's maximum,"
                " have room under these rules"
            )


def _values(done: Sequence[Simulated], field: str, form: str) -> list[str]:
    values = [getattr(one.statistic, field) for one in done]
    return ["-" if value is None else form.format(value) for value in values]


def _print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rankd.cli.common.table import Column, print_table

    columns = [Column(header[0].upper() or "STATISTIC"), *(Column(name, numeric=True) for name in header[1:])]
    print_table(columns, rows)


def _print_fairness(found: Statistic) -> None:
    fairness = found.fairness
    if fairness is None:
        return
    print_line(f"fairness between users (Jain's index of slowdowns): {fairness.jain_slowdown:.4f}")
    later = fairness.later_than_fcfs
    if later is not None and not later.jobs:
        print_line("no job started later than under plain first come, first served")
    elif later is not None:
        jobs = "1 job" if later.jobs == 1 else f"{later.jobs:,} jobs"
        print_line(
            f"{jobs} started later than under plain first come, first served: by {later.mean_s:,.0f} s"
            f" on average, and by at most {later.max_s:,.0f} s"
        )


def _largest(groups: Sequence[GroupStatistic]) -> list[GroupStatistic]:
    return sorted(groups, key=lambda group: (-group.processor_s, group.name))[:MOST_SHOWN]


def _print_groups(title: str, groups: Sequence[GroupStatistic]) -> None:
    rows = [
        [group.name, f"{group.jobs:,}", f"{group.mean_wait_s:,.0f}", f"{group.mean_bounded_slowdown:,.2f}"]
        for group in groups
    ]
    print()
    _print_columns([title, "JOBS", "MEAN WAIT (S)", "MEAN SLOWDOWN"], rows)


def _print_partitions(partitions: Sequence[PartitionStatistic]) -> None:
    """Print them, if there are several."""
    if len(partitions) < 2:
        return
    rows = [
        [
            one.name,
            f"{one.jobs:,}",
            f"{one.utilisation:.4f}",
            f"{one.mean_wait_s:,.0f}",
            f"{one.mean_bounded_slowdown:,.2f}",
        ]
        for one in partitions
    ]
    print()
    _print_columns(["by partition", "JOBS", "UTILISATION", "MEAN WAIT (S)", "MEAN SLOWDOWN"], rows)


def _print_comparisons(done: Sequence[Simulated]) -> None:
    from rankd.core.simulate.comparison import compare

    for other in done[1:]:
        found = compare(done[0].statistic, other.statistic)
        for title, changes in (("win", found.winners), ("lose", found.losers)):
            rows = [
                [change.name, change.kind, f"{change.jobs:,}", f"{change.wait_s:+,.0f}", f"{change.slowdown:+,.2f}"]
                for change in changes[:MOST_SHOWN]
            ]
            if not rows:
                continue
            print()
            print_line(f"who {title}s with {other.config} against {done[0].config}:")
            _print_columns(["who", "WHAT", "JOBS", "WAIT (S)", "SLOWDOWN"], rows)
