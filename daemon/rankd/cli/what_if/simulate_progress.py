"""How far a simulation is, on a terminal; and where its time goes (``--speed``)."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from cProfile import Profile

    from rankd.core.simulate.simulator import Simulation

_EVERY_S = 0.5
_LOOKED_AT = 64
"""After this number of cycles the clock is read."""
_PARTS = {
    "ranking": ("core/ranking/ranking.py", "rank"),
    "placement": ("core/placement/cycle.py", "run_cycle"),
}


def live_through(simulation: Simulation, name: str) -> None:
    """Run all of a simulation. On a terminal, one line tells how far it is and how long it will take."""
    gc.freeze()  # else the garbage collector goes through all jobs of the trace again and again
    try:
        _live_through(simulation, name)
    finally:
        gc.unfreeze()


def _live_through(simulation: Simulation, name: str) -> None:
    shows = sys.stderr.isatty()
    begun = shown_at = time.monotonic()
    total = len(simulation.work.jobs)
    for number, _ in enumerate(simulation.decisions()):
        if not shows or number % _LOOKED_AT or (now := time.monotonic()) < shown_at + _EVERY_S:
            continue
        shown_at = now
        left_s = (now - begun) * (total - simulation.n_arrived) / max(simulation.n_arrived, 1)
        line = f"{name}: {simulation.n_arrived:,} of {total:,} jobs, about {left_s:,.0f} s left"
        _show(line)
    if shows:
        _show("")


def _show(line: str) -> None:
    """Replace the line of the terminal. The stream of all commands would escape the control characters for that."""
    with suppress(OSError):
        print(f"\r\033[K{printable(line)}", end="", file=getattr(sys.stderr, "unguarded", sys.stderr), flush=True)


def profiled() -> Profile:
    """A profile that is enabled with ``with``. It makes a simulation several times slower."""
    from cProfile import Profile

    return Profile()


def parts(profile: Profile) -> Iterator[tuple[str, float]]:
    """Where the time went: (part, its part of the whole), the rest last."""
    from pstats import Stats

    stats = Stats(profile)
    total = float(stats.total_tt) or 1.0  # type: ignore[attr-defined]
    rest = 1.0
    for part, (file, function) in _PARTS.items():
        spent = sum(
            entry[3]
            for (path, _, called), entry in stats.stats.items()  # type: ignore[attr-defined]
            if called == function and path.replace("\\", "/").endswith(file)
        )
        rest -= spent / total
        yield part, spent / total
    yield "the rest", max(rest, 0.0)
