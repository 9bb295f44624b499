"""What the demo shows: the head of the queue with its breakdown, and who uses what. Redrawn on a terminal."""

from __future__ import annotations

import sqlite3
import sys
import time
from typing import Any, Self

from rankd.store import look

HEAD = 10
PLAIN_EVERY_S = 4.0


class Screen:
    """Draws on a terminal; prints every few seconds elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._told: list[str] = []
        self._live: Any = None
        self._last = 0.0

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.live import Live

            self._live = Live(auto_refresh=False, screen=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def tell(self, text: str) -> None:
        """Something happened in the story."""
        self._told.append(text)
        if not self._terminal:
            print(f"-- {text}", flush=True)

    def draw(self, connection: sqlite3.Connection) -> None:
        """Show the state of the queue now."""
        if not self._terminal and time.monotonic() - self._last < PLAIN_EVERY_S:
            return
        self._last = time.monotonic()
        lines = picture(connection)
        if self._live is None:
            print("\n".join(lines), flush=True)
            return
        from rich.text import Text

        story = [f"-- {text}" for text in self._told[-4:]]
        self._live.update(Text("\n".join([*lines, "", *story])), refresh=True)


def picture(connection: sqlite3.Connection) -> list[str]:
    """The screen as lines."""
    rows = look.head(connection, HEAD)
    states = dict(connection.execute("SELECT state, count(*) FROM job GROUP BY state").fetchall())
    running = connection.execute(
        "SELECT \"user\", count(*), sum(cores) FROM job WHERE state IN ('allocated', 'running')"
        ' GROUP BY "user" ORDER BY "user"'
    ).fetchall()
    counts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    users = ", ".join(f"{user} {number} jobs on {cores:g} cores" for user, number, cores in running)
    generation = rows[0]["generation"] if rows else "-"
    return [
        f"generation {generation}: {counts}",
        f"running: {users or 'nothing'}",
        *(_table(rows) or ["(not ranked yet)" if states.get("pending") else "(nothing is waiting)"]),
    ]


def _table(rows: list[look.Row]) -> list[str]:
    if not rows:
        return []
    names = [factor["name"] for factor in rows[0]["factors"]]
    lines = [f"{'RANK':>4} {'JOB':>5} {'USER':<6} {'NAME':<13} {'PRIORITY':>10} = {'CLASS':>6}"
             + "".join(f" + {name.upper()[:9]:>9}" for name in names)]  # fmt: skip
    for row in rows:
        points = "".join(f" + {_points(factor['points'])}" for factor in row["factors"])
        override = f"   ({row['override']})" if row["override"] else ""
        lines.append(
            f"{row['rank']:>4} {row['id']:>5} {row['user']:<6} {row['name']:<13}"
            f" {row['priority']:>10} = {row['class_value']:>6}{points}{override}"
        )
    return lines


def _points(points: float | None) -> str:
    return f"{'-':>9}" if points is None else f"{points:>9.2f}"


def explain(row: look.Row, neighbour: look.Row | None) -> list[str]:
    """One job's place, in words."""
    lines = [
        f"Why job {row['id']} ({row['name']} of {row['user']}) had rank {row['rank']}: priority {row['priority']} ="
    ]
    lines.append(f"  {row['class_value']:>12}     class value")
    lines += [
        f"  {factor['points']:>12.2f}     {factor['name']}: {factor['value']:.6f} x weight {factor['weight']:g}"
        for factor in row["factors"]
    ]
    lines.append(f"  {row['points_sum']:>12.2f}     the sum of all factors, cut off after the point once")
    if neighbour is not None:
        gap = neighbour["priority"] - row["priority"]
        lines.append(
            f"  Just above stood job {neighbour['id']} of {neighbour['user']} with {neighbour['priority']}"
            f" ({'+' if gap >= 0 else ''}{gap}{', submitted earlier' if gap == 0 else ''})."
        )
    return lines
