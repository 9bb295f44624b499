"""What must hold of devices after everything, by the records and by what the jobs saw."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from pathlib import Path

from soak.cluster import DEVICES
from soak.verdict import rows

from rankd.core.model.device import GPU, model_of
from rankd.store.engine.driver import sqlite3

Place = tuple[str, str]
"""A node and the id of one of its devices."""


def wrong_devices(database: Path, starts: Path, clashes: Path) -> list[str]:
    """No device was in two open allocations, and each job saw what it was given, which is what it asked for."""
    given = given_devices(database)
    return [
        *double_allocations(database, given),
        *wrong_gifts(database, given),
        *wrong_sights(database, starts, given),
        *(clashes.read_text().splitlines() if clashes.exists() else []),
    ]


def given_devices(database: Path) -> dict[int, list[sqlite3.Row]]:
    """The devices of each allocation that has any, in the order of their indices."""
    given: dict[int, list[sqlite3.Row]] = collections.defaultdict(list)
    for row in rows(database, "SELECT * FROM allocation_devices ORDER BY allocation_id, node, position"):
        given[row["allocation_id"]].append(row)
    return given


def double_allocations(database: Path, given: dict[int, list[sqlite3.Row]]) -> list[str]:
    """Replays the events: at no instant do two jobs hold a device; at the end nobody holds one."""
    wrong = []
    allocations: dict[int, list[int]] = collections.defaultdict(list)
    for row in rows(database, "SELECT id, job_id FROM allocations ORDER BY id"):
        allocations[row["job_id"]].append(row["id"])
    holder: dict[Place, int] = {}
    for row in rows(database, "SELECT id, job_id, event, state FROM job_events ORDER BY id"):
        job = row["job_id"]
        if row["event"] == "allocate":
            places = [(device["node"], device["device"]) for device in given.get(allocations[job].pop(0), ())]
            wrong += [f"event {row['id']}: {place} is in two allocations" for place in places if place in holder]
            holder |= dict.fromkeys(places, job)
        elif row["state"] not in ("allocated", "running"):
            holder = {place: one for place, one in holder.items() if one != job}
    held = rows(database, "SELECT allocation_id, device FROM allocation_devices WHERE held")
    wrong += [f"allocation {row['allocation_id']} still holds {row['device']}" for row in held]
    return wrong + [f"job {job} has not given back {place}" for place, job in holder.items()]


def wrong_gifts(database: Path, given: dict[int, list[sqlite3.Row]]) -> list[str]:
    """Allocations whose devices are not what their jobs asked for, on each of their nodes."""
    wrong = []
    query = "SELECT l.id, l.nodes, j.resources FROM allocations l JOIN jobs j ON j.id = l.job_id"
    for row in rows(database, query):
        asked = json.loads(row["resources"])
        for node in json.loads(row["nodes"]):
            found = [device for device in given.get(row["id"], ()) if device["node"] == node]
            if not _is_answer([device["model"] for device in found], asked):
                wrong.append(f"allocation {row['id']} asks for {asked}, has {[d['device'] for d in found]} on {node}")
            listed = [DEVICES[node][device["position"]] for device in found]
            if listed != [device["model"] for device in found]:
                wrong.append(f"allocation {row['id']} has models that {node} does not offer: {listed}")
    return wrong


def _is_answer(models: list[str], asked: dict[str, int]) -> bool:
    of_models = {model: number for kind, number in asked.items() if (model := model_of(kind))}
    return collections.Counter(models) == of_models if of_models else len(models) == asked.get(GPU, 0)


def wrong_sights(database: Path, starts: Path, given: dict[int, list[sqlite3.Row]]) -> list[str]:
    """Starts that saw other devices than those of their allocation on their node."""
    nodes = {row["id"]: json.loads(row["nodes"]) for row in rows(database, "SELECT id, nodes FROM allocations")}
    wrong = []
    for allocation, rank, ids, indices in _sights(starts):
        own = [row for row in given.get(allocation, ()) if row["node"] == nodes[allocation][rank]]
        expected = (",".join(row["device"] for row in own), ",".join(str(row["position"]) for row in own))
        if (ids, indices) != expected:
            wrong.append(f"allocation {allocation} rank {rank} saw {ids}|{indices}, was given {'|'.join(expected)}")
    return wrong


def _sights(starts: Path) -> Iterator[tuple[int, int, str, str]]:
    """Allocation, rank, ids and indices of each start."""
    for line in starts.read_text().splitlines():
        allocation, rank, _, sight = line.split()
        ids, _, indices = sight.partition("|")
        yield int(allocation), int(rank), ids, indices
