"""Queues, and the position of each among its siblings.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.model.quantity import VCORE, Resources
from rankd.core.ranking.sibling import Sibling, ordered
from rankd.store.engine.reading import Reader, Row, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def queues(connection: Reader) -> list[Row]:
    """The live queues by partition and path.

    ``place`` is the position among the siblings with pending jobs; None for a queue without pending jobs. ``ahead_by``
    is the key that puts the queue before the next sibling: ``priority``, ``share``, ``pending`` or ``name``.
    """
    rows = fetch(connection, "SELECT * FROM queue_priority ORDER BY partition, path")
    placed = _places(rows, _totals(connection))
    nowhere: tuple[int | None, str | None] = (None, None)
    for row in rows:
        row["place"], row["ahead_by"] = placed.get((row["partition"], row["path"]), nowhere)
    return rows


def _places(
    rows: Sequence[Row], totals: Mapping[str, Resources]
) -> dict[tuple[str, str], tuple[int | None, str | None]]:
    siblings: dict[tuple[str, str], list[Sibling]] = {}
    for row in rows:
        if row["priority"] is not None and "." in row["path"]:
            shown = (row["path"], row["priority"], row["share"], _internal(row["pending"]))
            siblings.setdefault((row["partition"], row["path"].rpartition(".")[0]), []).append(
                Sibling(path=shown[0], priority=shown[1], share=shown[2], pending=shown[3])
            )
    by_priority = {(row["partition"], row["path"]): row["sort_priority"] == "enabled" for row in rows}
    placed: dict[tuple[str, str], tuple[int | None, str | None]] = {}
    for (partition, parent), found in siblings.items():
        counts = by_priority.get((partition, parent), True)
        for place, (path, key) in enumerate(ordered(found, totals.get(partition, {}), by_priority=counts), start=1):
            placed[partition, path] = (place, key)
    return placed


def _totals(connection: Reader) -> dict[str, Resources]:
    """The summed capacity of the nodes of each partition that are up or draining."""
    totals: dict[str, Resources] = {}
    for row in fetch(connection, "SELECT partition, capacity FROM node WHERE state IN ('up', 'draining')"):
        total = totals.setdefault(row["partition"], {})
        for kind, amount in _internal(row["capacity"]).items():
            total[kind] = total.get(kind, 0) + amount
    return totals


def _internal(amounts: Mapping[str, float]) -> Resources:
    """Resources in the units of the ranking: vcore in thousandths of a core."""
    return {kind: round(amount * 1000) if kind == VCORE else int(amount) for kind, amount in amounts.items()}
