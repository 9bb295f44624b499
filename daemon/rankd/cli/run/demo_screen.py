"""The screen of the demo: the first jobs of the queue with their points, and what each user uses.

On a terminal it is redrawn, and fits its width (from 80 columns) and height, so that the story stays visible.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, Self

from rankd.cli.common.screen import cut
from rankd.cli.common.table import Column, lines
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.demo_state import jobs_by_state, running_by_user
from rankd.store.look.priority_list import head

HEAD = 10
STORY = 4
BESIDES = 6
"""Lines beside the table's rows and the story: two of counts, the header, a blank one, and two for the cursor."""

PLAIN_EVERY_S = 4.0
PLAIN_WIDTH = 120


class Screen:
    """Draws on a terminal; prints every few seconds elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._told: list[str] = []
        self._live: Any = None
        self._last = 0.0

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=getattr(sys.stdout, "unguarded", sys.stdout))
            self._live = Live(console=console, auto_refresh=False, screen=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self._told.append(text)
        if not self._terminal:
            print(f"-- {text}", flush=True)

    def draw(self, connection: Reader) -> None:
        """Show the state of the queue now."""
        if not self._terminal and time.monotonic() - self._last < PLAIN_EVERY_S:
            return
        self._last = time.monotonic()
        if self._live is None:
            print("\n".join(picture(connection, PLAIN_WIDTH, HEAD)), flush=True)
            return
        from rich.text import Text

        width, height = shutil.get_terminal_size()
        rows = max(1, min(HEAD, height - BESIDES - STORY))
        story = [cut(f"-- {text}", width) for text in self._told[-STORY:]]
        shown = "\n".join([*picture(connection, width, rows), "", *story])
        self._live.update(Text(shown, no_wrap=True, overflow="crop"), refresh=True)


def picture(connection: Reader, width: int, most: int) -> list[str]:
    """The screen as lines of at most ``width`` columns, with at most ``most`` waiting jobs."""
    rows = head(connection, most)
    states = jobs_by_state(connection)
    counts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    users = ", ".join(f"{own.user} {own.jobs} on {own.cores:g} cores" for own in running_by_user(connection))
    generation = f"generation {rows[0]['generation']}: " if rows else ""
    shown = [
        f"{generation}{counts}",
        f"running: {users or 'nothing'}",
        *(_table(rows, width) or ["(not ranked yet)" if states.get("pending") else "(nothing is waiting)"]),
    ]
    return [cut(line, width) for line in shown]


def _table(rows: list[Row], width: int) -> list[str]:
    """The table of waiting jobs. PRIORITY is the class plus all points. Points are rounded, to fit 80 columns."""
    if not rows:
        return []
    names = [factor["name"].upper() for factor in rows[0]["factors"]]
    texts = [Column("USER"), Column("NAME")]
    numbers = [Column(name, numeric=True) for name in ("PRIORITY", "CLASS", *names)]
    cells = [
        [
            str(row["rank"]),
            str(row["id"]),
            row["user"],
            row["name"],
            row["override"] or str(row["priority"]),
            str(row["class_value"]),
            *("-" if factor["points"] is None else f"{factor['points']:.0f}" for factor in row["factors"]),
        ]
        for row in rows
    ]
    return lines([Column("RANK", True), Column("JOB", True), *texts, *numbers], cells, terminal_width=width)


def explain(row: Row, neighbour: Row) -> list[str]:
    """Explains why a job is behind another user's job: its own points, and the difference to the other job's."""
    shown = [
        f"Why job {row['id']} ({row['name']} of {row['user']}) had rank {row['rank']}: priority {row['priority']} ="
    ]
    shown.append(f"  {row['class_value']:>12}     class value")
    shown += [
        f"  {factor['points']:>12.2f}     {factor['name']}: {factor['value']:.6f} x weight {factor['weight']:g}"
        for factor in row["factors"]
    ]
    shown.append(f"  {row['points_sum']:>12.2f}     the sum of all points, cut to a whole number")
    gap = neighbour["priority"] - row["priority"]
    shown.append(
        f"Just above was job {neighbour['id']} of {neighbour['user']} with {neighbour['priority']} ({gap:+d}):"
    )
    shown.append(f"  {_reason(row, neighbour)}")
    return shown


def _reason(row: Row, neighbour: Row) -> str:
    """Why the neighbour went first. Parts of the difference are listed from the largest to the smallest."""
    parts = {"class": neighbour["class_value"] - row["class_value"]}
    for mine, its in zip(row["factors"], neighbour["factors"], strict=True):
        parts[mine["name"]] = its["points"] - mine["points"]
    large = sorted((item for item in parts.items() if abs(item[1]) >= 0.5), key=lambda item: -abs(item[1]))
    if neighbour["priority"] < row["priority"]:
        return f"job {neighbour['id']} went first because of the queues' offsets and fences"
    if neighbour["priority"] == row["priority"] or not large:
        return f"job {neighbour['id']} went first because it was submitted earlier"
    return "difference in points: " + ", ".join(f"{name} {points:+.0f}" for name, points in large)
