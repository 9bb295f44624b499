"""The tree of queues: what each shows to its parent, what it may use and uses, and who is next in it."""

from __future__ import annotations

from typing import Any

from rankd.core.admission.privacy import Row, seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.queue_first import first_of_queues
from rankd.store.look.queue_list import queues as queue_list

KEYS = {
    "priority": "its priority is higher",
    "share": "it has used less of its share",
    "pending": "less waits in it",
    "name": "of its name; all else is equal",
}
MOST = 500


async def queues(page: Page, asker: Submitter, _given: Given) -> str:
    """The tree."""
    rows = await page.look(lambda reader: _read(reader, asker))
    return page.template.render("_queues.html", rows=rows[:MOST], n=len(rows), keys=KEYS)


def _read(reader: Reader, asker: Submitter) -> list[dict[str, Any]]:
    first = first_of_queues(reader)
    found = list[dict[str, Any]]()
    for row in queue_list(reader):
        next_job: Row | None = first.get((row["partition"], row["path"]))
        if next_job is not None and not sees_all(asker) and next_job["user"] != asker.user:
            next_job = None if asker.sees == "own" else seen(next_job, asker)
        found.append(
            row
            | {
                "depth": row["path"].count("."),
                "leaf": row["path"].rpartition(".")[2],
                "next": next_job,
                "kinds": _kinds(row),
            }
        )
    return found


def _kinds(row: Row) -> list[tuple[str, float, float | None, float | None]]:
    """What the queue uses of each resource: amount, guaranteed, maximum."""
    kinds = sorted(row["allocated"].keys() | row["max"].keys() | row["guaranteed"].keys())
    return [(kind, row["allocated"].get(kind, 0), row["guaranteed"].get(kind), row["max"].get(kind)) for kind in kinds]
