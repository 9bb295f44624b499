"""The steps of a job as ``rankd show`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.table import print_table
from rankd.core.session.step_word import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.store.engine.reading import Row


def print_steps(steps: Sequence[Row], count: int) -> None:
    """Print a heading, and a line per step."""
    fewer = f"; the newest {len(steps)}" if len(steps) < count else ""
    print(f"\n{count} step{'' if count == 1 else 's'}{fewer}")
    print_table([field.column() for field in _FIELDS], table_rows(_FIELDS, steps))


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
