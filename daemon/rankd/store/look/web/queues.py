"""The tree of queues, each with its next job."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.admission.privacy import seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.priority_list import priorities_of
from rankd.store.look.queue_first import first_of_queues
from rankd.store.look.queue_list import queues
from rankd.store.look.web.look import Given, Look

Key = tuple[str, str]
"""Partition and path."""


def _queues(reader: Reader, asker: Submitter, _given: Given) -> list[Row]:
    first = first_of_queues(reader)
    found = list[Row]()
    for row in queues(reader):
        next_job: Row | None = first.get((row["partition"], row["path"]))
        if next_job is not None and not sees_all(asker) and next_job["user"] != asker.user:
            next_job = None if asker.sees == "own" else seen(next_job, asker)
        found.append(row | {"next": next_job})
    own = _own(reader, found, first)
    return [row | {"own": own[row["partition"], row["path"]]} for row in found]


def _own(reader: Reader, rows: list[Row], first: Mapping[Key, Row]) -> dict[Key, float | None]:
    """The priority of the best job of each queue, before the queue's own offset or fence; None without one."""
    best: dict[Key, float | None] = {}
    fenced = {key: first[key]["id"] for key in map(_key, rows) if key in first}
    behind = [fenced[_key(row)] for row in rows if row["is_leaf"] and row["policy"] == "fence" and _key(row) in fenced]
    alone = {row["id"]: row["priority"] for row in priorities_of(reader, behind)}
    for row in sorted(rows, key=lambda row: -row["path"].count(".")):  # children first
        key, shown = _key(row), row["priority"]
        if row["is_leaf"] and row["policy"] == "fence":
            best[key] = alone.get(fenced.get(key, -1))
        elif row["is_leaf"]:
            best[key] = None if shown is None else shown - (row["offset"] or 0)
        else:
            best.setdefault(key, None)
        parent = (row["partition"], row["path"].rpartition(".")[0])
        if shown is not None:
            others = best.get(parent)
            best[parent] = shown if others is None else max(others, shown)
    return best


def _key(row: Row) -> Key:
    return row["partition"], row["path"]


QUEUES = Look("queues", list[Row], _queues, is_list=True)
