"""The steps of a job as ``rankd show`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.table import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.store.engine.reading import Row

_CAUSES = {"not_started": "not started", "lost": "lost", "job_ended": "ended with its job"}


def print_steps(steps: Sequence[Row], count: int) -> None:
    """Print a heading, and a line per step."""
    fewer = f"; the newest {len(steps)}" if len(steps) < count else ""
    print(f"\n{count} step{'' if count == 1 else 's'}{fewer}")
    print_table([field.column() for field in _FIELDS], table_rows(_FIELDS, steps))


def state_of(step: Row) -> str:
    """How a step is, or how the worst of its tasks ended.

    >>> ended = {"ended_at": 2.0, "exit_status": 3, "signal": None, "cause": None}
    >>> state_of(ended), state_of(ended | {"ended_at": None}), state_of(ended | {"exit_status": None, "signal": 9})
    ('exit 3', 'running', 'signal KILL')
    >>> state_of(ended | {"cause": "not_started", "exit_status": 127})
    'not started (127)'
    """
    if step["ended_at"] is None:
        return "running"
    if step["cause"] is not None:
        why = _CAUSES.get(step["cause"]) or str(step["cause"])
        return why if step["exit_status"] is None else f"{why} ({step['exit_status']})"
    if step["signal"] is not None:
        from rankd.core.model.signal_name import name_of_signal

        return f"signal {name_of_signal(step['signal'])}"
    return f"exit {step['exit_status']}"


def _elapsed(step: Row) -> str:
    return "" if step["ended_at"] is None else shown_duration(step["ended_at"] - step["started_at"])


_FIELDS = [
    column_of("number", "STEP", numeric=True),
    column_of("tasks", "TASKS", numeric=True),
    column_of("nodelist", "NODES"),
    column_of("started_by", "BY"),
    Field("STARTED", lambda step: step["started_at"], lambda step: shown_time(step["started_at"])),
    Field("ELAPSED", lambda _step: None, _elapsed),
    Field("STATE", lambda _step: None, state_of),
    column_of("command", "COMMAND"),
]
