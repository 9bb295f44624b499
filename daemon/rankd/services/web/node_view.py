"""Nodes: a cell per device and block of cores, who has it, what it does over time, and why it takes no jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.core.admission.privacy import Row
from rankd.core.admission.submitter import Submitter
from rankd.services.web.node_plan import LANE, axis, plan, spans
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.look.web.nodes import NODES

CELLS = 32
"""Cells for the cores of a node: each stands for one core, or for a block on a larger node."""


async def nodes(page: Page, asker: Submitter, given: Given) -> str:
    """Nodes with what runs on them."""
    found, now = await page.look(NODES, asker, given), page.clock()
    shown = [
        row | {"devices": sorted(row["devices"], key=_place), "blocks": blocks(row, row["jobs"])} for row in found.rows
    ]
    time_axis = axis([span for row in shown for span in spans(row["jobs"], row["reserved"], now)], now)
    plans = {row["name"]: plan(row["jobs"], row["reserved"], time_axis, now) for row in shown}
    return page.template.render("_nodes.html", rows=shown, n=found.n, axis=time_axis, plans=plans, lane=LANE)


def _place(device: Row) -> tuple[str, int, str]:
    """A sort key: the type, then the index as a number, if it is one."""
    index = str(device["index"])
    return str(device["type"]), int(index) if index.isdecimal() and len(index) < 9 else 0, index


class Block(NamedTuple):
    """Cells of cores side by side: of one job, in use by jobs that are not shown, or free."""

    cells: int
    job: Row | None
    is_used: bool


def blocks(row: Row, running: Sequence[Row]) -> list[Block]:
    """The cells of a node's cores, by who has them. A job has as many cells as its part of the cores, rounded.

    ``running``: the jobs on the node that are shown. On a node in use, at least one cell is.
    """
    cores, used = row["capacity"].get("vcore", 0), row["allocated"].get("vcore", 0)
    cells = int(min(CELLS, max(1, cores)))
    found, amount, at = list[Block](), 0.0, 0
    for job in running:
        amount += used if job.get("exclusive") else (job["resources"] or {}).get("vcore", 0)
        end = round(cells * min(1.0, amount / cores)) if cores else 0
        found.append(Block(end - at, job, is_used=True))
        at = end
    taken = max(at, round(cells * min(1.0, used / cores)) if cores else 0, 1 if used else 0)
    found += [Block(taken - at, None, is_used=True), Block(cells - taken, None, is_used=False)]
    return [block for block in found if block.cells > 0]
