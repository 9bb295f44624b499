"""Two simulations of the same jobs side by side: who waits less with the second one, and who waits longer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rankd.core.simulate.statistic import GroupStatistic, Statistic


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A user, an account or a class. ``wait_s`` and ``slowdown``: the second mean minus the first."""

    kind: str
    name: str
    jobs: int
    wait_s: float
    slowdown: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``winners`` wait less with the second simulation, ``losers`` longer. The largest changes come first."""

    winners: list[Change]
    losers: list[Change]


def compare(first: Statistic, second: Statistic) -> Comparison:
    """The changes from the first to the second simulation."""
    pairs = (
        ("partition", first.by_partition if len(first.by_partition) > 1 else [], second.by_partition),
        ("account", first.by_account, second.by_account),
        ("user", first.by_user, second.by_user),
        ("size", first.by_size, second.by_size),
        ("run time", first.by_run_time, second.by_run_time),
    )
    changes = [change for kind, one, other in pairs for change in _changes(kind, one, other)]
    changes.sort(key=lambda change: (change.slowdown, change.kind, change.name))
    return Comparison(
        winners=[change for change in changes if change.slowdown < 0],
        losers=[change for change in reversed(changes) if change.slowdown > 0],
    )


def _changes(kind: str, first: Sequence[GroupStatistic], second: Sequence[GroupStatistic]) -> list[Change]:
    known = {group.name: group for group in first}
    return [
        Change(
            kind=kind,
            name=group.name,
            jobs=group.jobs,
            wait_s=group.mean_wait_s - known[group.name].mean_wait_s,
            slowdown=group.mean_bounded_slowdown - known[group.name].mean_bounded_slowdown,
        )
        for group in second
        if group.name in known
    ]
