"""Nodes: a cell per device and block of cores, who has it, and why a node takes no jobs."""

from __future__ import annotations

from typing import Any

from rankd.core.admission.privacy import Row, seen, seen_devices, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.model.nodelist import unfold
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.device_list import devices as device_list
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes as node_list
from rankd.wire.job_selection import JobFilter

MOST = 300
"""Nodes on the page."""
CELLS = 32
"""Cells for the cores of a node: each stands for one core, or for a block on a larger node."""
SILENT_S = 30.0


async def nodes(page: Page, asker: Submitter, _given: Given) -> str:
    """All nodes with what runs on them."""
    rows = await page.look(lambda reader: _read(reader, asker))
    return page.template.render("_nodes.html", rows=rows[:MOST], n=len(rows), silent_s=SILENT_S)


def _read(reader: Reader, asker: Submitter) -> list[dict[str, Any]]:
    running: dict[str, list[Row]] = {}
    for job in jobs(reader, JobFilter(states=["allocated", "running"], limit=2_000)):
        if asker.sees == "own" and not sees_all(asker) and job["user"] != asker.user:
            continue
        shown = seen(job, asker)
        for node in _names(job["nodelist"]):
            running.setdefault(node, []).append(shown)
    held: dict[str, list[Row]] = {}
    for device in seen_devices(device_list(reader), asker):
        held.setdefault(device["node"], []).append(device)
    return [
        row | {"jobs": running.get(row["name"], []), "devices": held.get(row["name"], []), "blocks": blocks(row)}
        for row in node_list(reader)
    ]


def _names(nodelist: list[str] | str | None) -> list[str]:
    return nodelist if isinstance(nodelist, list) else unfold(nodelist) if nodelist else []


def blocks(row: Row) -> list[bool]:
    """A cell per block of cores: whether it is in use."""
    cores, used = row["capacity"].get("vcore", 0), row["allocated"].get("vcore", 0)
    cells = int(min(CELLS, max(1, cores)))
    taken = round(cells * min(1.0, used / cores)) if cores else 0
    return [place < max(taken, 1 if used else 0) for place in range(cells)]
