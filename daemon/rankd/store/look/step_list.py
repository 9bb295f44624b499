"""The newest steps of a job's present or last run.

SQL is text: the command line shows them without importing SQLAlchemy.
"""

from __future__ import annotations

import msgspec

from rankd.core.model.nodelist import fold
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.schema.step_view import END

MOST_SHOWN = 20
LONGEST_NODES = 1_000
"""Characters of the names of a step's nodes."""

_STEPS = f"""SELECT s.number, s.command, s.tasks, s.started_by, s.started_at, {END}, s.places
    FROM job_steps s JOIN allocations l ON l.id = s.allocation_id
    WHERE s.allocation_id = ? ORDER BY s.number DESC LIMIT {MOST_SHOWN}"""
_NODES = "SELECT nodes FROM allocations WHERE id = ?"


def steps_of(connection: Reader, allocation: int | None) -> Row:
    """``steps``: the newest ones, in ascending order; ``step_count``: how many there were. Empty without steps."""
    rows = [] if allocation is None else fetch(connection, _STEPS, [allocation])
    if not rows:
        return {}
    [found] = fetch(connection, _NODES, [allocation])
    nodes, shown = msgspec.json.decode(found["nodes"], type=list[str]), dict[str, str]()
    for row in rows:
        places = row.pop("places")
        if places not in shown:
            shown[places] = _names(nodes, int(places, 16))
        row["nodelist"] = shown[places]
    return {"step_count": rows[0]["number"] + 1, "steps": rows[::-1]}


def _names(nodes: list[str], places: int) -> str:
    text = fold(node for place, node in enumerate(nodes) if places >> place & 1)
    return text if len(text) <= LONGEST_NODES else f"{text[: LONGEST_NODES - 1]}…"
