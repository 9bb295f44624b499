"""Pictures of simulations: what was in use, who waited, how slow it was, and who got their share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankd.cli.what_if.simulate_report import Simulated

_SIZE_INCHES = (8.0, 4.5)
_DAY_S = 86400.0
_MOST_ACCOUNTS = 12


def need_matplotlib() -> None:
    """Check that pictures can be drawn, before anything is simulated.

    Raises:
        Refused: ``usage``: matplotlib is not installed.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise Refused("usage", "--plot needs matplotlib, which is not installed; install rankd[plot]", "plot")


def check_directory(directory: str) -> None:
    """Make the directory of the pictures, before anything is simulated.

    Raises:
        Refused: ``usage``: it can't be made, or not be written.
    """
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error.strerror or str(error)) from None
    if not os.access(directory, os.W_OK):
        raise _unwritable(directory, "permission denied")


def _unwritable(directory: str, why: str) -> Refused:
    return Refused("usage", f"--plot: {directory} can't be written: {why}", "plot")


def draw(directory: str, done: Sequence[Simulated]) -> None:
    """Draw each picture as SVG and as PNG. The same simulations give the same bytes of SVG.

    Raises:
        Refused: ``usage``: the directory can't be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "rankd"
    pictures: dict[str, Callable[[Any, Sequence[Simulated]], None]] = {
        "utilisation": _utilisation,
        "queue": _queue,
        "wait": _wait,
        "slowdown": _slowdown,
        "share": _share,
    }
    try:
        for name, paint in pictures.items():
            figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
            paint(figure.subplots(), done)
            figure.savefig(Path(directory) / f"{name}.svg", metadata={"Date": None})
            figure.savefig(Path(directory) / f"{name}.png", dpi=120)
    except OSError as error:
        raise _unwritable(directory, error.strerror or str(error)) from None


def _name(one: Simulated) -> str:
    return one.config or "simulated"


def _utilisation(axes: Any, done: Sequence[Simulated]) -> None:  # noqa: ANN401 - matplotlib is optional
    from rankd.core.simulate.series import in_use

    for one in done:
        series = in_use(one.simulation.work, one.simulation.starts_s)
        part = series.values / one.processors
        axes.step(series.begins_s / _DAY_S, part, where="post", label=_name(one), linewidth=0.8)
    _finish(axes, "Processors in use", "days after the first submission", "part of the machine")


def _queue(axes: Any, done: Sequence[Simulated]) -> None:  # noqa: ANN401
    from rankd.core.simulate.series import waiting

    for one in done:
        series = waiting(one.simulation.work, one.simulation.starts_s)
        axes.step(series.begins_s / _DAY_S, series.values, where="post", label=_name(one), linewidth=0.8)
    _finish(axes, "Jobs that wait", "days after the first submission", "jobs")


def _wait(axes: Any, done: Sequence[Simulated]) -> None:  # noqa: ANN401
    names = [group.name for group in done[0].statistic.by_size]
    bars = [[group.mean_wait_s / 3600 for group in one.statistic.by_size] for one in done]
    _bars(axes, names, bars, [_name(one) for one in done])
    _finish(axes, "Mean waiting time by size", "processors", "hours")


def _slowdown(axes: Any, done: Sequence[Simulated]) -> None:  # noqa: ANN401
    import numpy as np

    from rankd.core.simulate.statistic import bounded_slowdowns

    for one in done:
        work, starts_s = one.simulation.work, one.simulation.starts_s
        ran = ~np.isnan(starts_s)
        slowdowns = np.sort(bounded_slowdowns(starts_s[ran] - work.columns.submitted_at[ran], work.runs_s[ran]))
        part = np.arange(1, len(slowdowns) + 1) / max(len(slowdowns), 1)
        axes.step(slowdowns, part, where="post", label=_name(one))
    axes.set_xscale("log")
    _finish(axes, "Bounded slowdown", "slowdown at most", "part of the jobs")


def _share(axes: Any, done: Sequence[Simulated]) -> None:  # noqa: ANN401
    fairness = done[0].statistic.fairness
    shares = [] if fairness is None else fairness.shares
    names = [one.account for one in sorted(shares, key=lambda one: -one.received)][:_MOST_ACCOUNTS]
    promised = {one.account: one.promised for one in shares}
    bars = [[promised[name] for name in names]]
    for one in done:
        received = (
            {} if one.statistic.fairness is None else {s.account: s.received for s in one.statistic.fairness.shares}
        )
        bars.append([received.get(name, 0.0) for name in names])
    _bars(axes, names, bars, ["promised", *(f"received: {_name(one)}" for one in done)])
    _finish(axes, "Share and use per account", "", "part")


def _bars(axes: Any, names: Sequence[str], bars: Sequence[Sequence[float]], labels: Sequence[str]) -> None:  # noqa: ANN401
    width = 0.8 / len(bars)
    for place, (heights, label) in enumerate(zip(bars, labels, strict=True)):
        at = [number + (place - (len(bars) - 1) / 2) * width for number in range(len(names))]
        axes.bar(at[: len(heights)], heights, width=width, label=label)
    axes.set_xticks(range(len(names)), [name.replace("$", r"\$") for name in names], rotation=30, ha="right")


def _finish(axes: Any, title: str, below: str, beside: str) -> None:  # noqa: ANN401
    axes.set_title(title)
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(framealpha=0.9)
    axes.grid(visible=True, alpha=0.3)
