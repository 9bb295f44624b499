"""Nodes with their devices, and the jobs that run on them or will."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.privacy import seen, seen_devices, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.model.nodelist import unfold
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.device_list import devices, recent_use
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes
from rankd.store.look.reservation_list import reservations
from rankd.store.look.web.look import Given, Look
from rankd.wire.job_selection import JobFilter

MOST = 300
"""Nodes that are shown."""
MOST_JOBS = 2_000


class NodesShown(NamedTuple):
    """The first nodes, and how many there are."""

    rows: list[Row]
    n: int


def _nodes(reader: Reader, asker: Submitter, _given: Given) -> NodesShown:
    running: dict[str, list[Row]] = {}
    for job in jobs(reader, JobFilter(states=["allocated", "running"], limit=MOST_JOBS)):
        if asker.sees == "own" and not sees_all(asker) and job["user"] != asker.user:
            continue
        shown = seen(job, asker)
        for node in _names(job["nodelist"]):
            running.setdefault(node, []).append(shown)
    reserved: dict[str, list[Row]] = {}
    for job in reservations(reader):
        if asker.sees != "own" or sees_all(asker) or job["user"] == asker.user:
            for node in _names(job["reserved_nodes"]):
                reserved.setdefault(node, []).append(seen(job, asker))
    held: dict[str, list[Row]] = {}
    recent = recent_use(reader)
    for device in seen_devices(devices(reader), asker):
        is_seen = device["job"] is not None and (sees_all(asker) or device["user"] == asker.user)
        use = recent.get((device["node"], device["id"])) if is_seen else None
        held.setdefault(device["node"], []).append(device | {"recent": use})
    everything = nodes(reader)
    rows = [
        row
        | {
            "jobs": running.get(row["name"], []),
            "reserved": reserved.get(row["name"], []),
            "devices": held.get(row["name"], []),
        }
        for row in everything[:MOST]
    ]
    return NodesShown(rows, len(everything))


NODES = Look("nodes", NodesShown, _nodes, is_list=True)


def _names(nodelist: list[str] | str | None) -> list[str]:
    return nodelist if isinstance(nodelist, list) else unfold(nodelist) if nodelist else []
