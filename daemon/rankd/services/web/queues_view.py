"""The tree of queues: what each shows to its parent, what it may use and uses, and who is next in it."""

from __future__ import annotations

from rankd.core.admission.privacy import Row
from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.look.web.queues import QUEUES

KEYS = {
    "priority": "its priority is higher",
    "share": "it has used less of its share",
    "pending": "less waits in it",
    "name": "of its name; all else is equal",
}
MOST = 500


async def queues(page: Page, asker: Submitter, given: Given) -> str:
    """The tree."""
    rows = await page.look(QUEUES, asker, given)
    shown = [row | _place(row) for row in rows[:MOST]]
    return page.template.render("_queues.html", rows=shown, n=len(rows), keys=KEYS)


def _place(row: Row) -> Row:
    """Where a queue is drawn in the tree, and what it uses."""
    return {"depth": row["path"].count("."), "leaf": row["path"].rpartition(".")[2], "kinds": _kinds(row)}


def _kinds(row: Row) -> list[tuple[str, float, float | None, float | None]]:
    """What the queue uses of each resource: amount, guaranteed, maximum."""
    kinds = sorted(row["allocated"].keys() | row["max"].keys() | row["guaranteed"].keys())
    return [(kind, row["allocated"].get(kind, 0), row["guaranteed"].get(kind), row["max"].get(kind)) for kind in kinds]
