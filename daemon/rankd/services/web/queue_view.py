"""The queue: who is next and why, and what runs."""

from __future__ import annotations

from rankd.core.admission.privacy import Row
from rankd.core.admission.submitter import Submitter
from rankd.core.words import DECISIONS, OVERRIDES
from rankd.services.web.bar import compared, extent, parts
from rankd.services.web.page import Page
from rankd.services.web.silence import silent
from rankd.services.web.view import Given
from rankd.store.look.job_window import JobWindow
from rankd.store.look.web.queue import QUEUE, QueueShown
from rankd.store.look.why import decided_by

FILTERS = ("user", "account", "queue", "text", "state", "after")


async def queue(page: Page, asker: Submitter, given: Given) -> str:
    """The ranking and the running jobs."""
    shown = await page.look(QUEUE, asker, given)
    rows = [] if shown.waiting is None else _explained(shown)
    return page.template.render(
        "_queue.html", shown=shown, rows=rows, between=extent(rows), unranked=_rows(shown.unranked),
        running=_rows(shown.running), ended=_rows(shown.ended), given=given, next=_next(shown),
        silent=silent(shown.services, page.clock()), is_filtered=any(given.get(name) for name in FILTERS[:-2]),
    )  # fmt: skip


def _rows(window: JobWindow | None) -> list[Row]:
    return [] if window is None else window.rows


def _next(shown: QueueShown) -> int | None:
    """The parameter ``after`` of the next page."""
    if shown.waiting is not None:
        return shown.waiting.after
    listed = shown.running or shown.ended
    return listed.rows[-1]["id"] if listed is not None and listed.more and listed.rows else None


def _explained(shown: QueueShown) -> list[Row]:
    """Each waiting job with what puts the one above before it, in words. The first of all has none."""
    assert shown.waiting is not None  # noqa: S101 - the caller has looked
    rows = shown.waiting.rows
    before = [shown.above, *rows]
    return [
        row | {"gap": None if above is None or above["rank"] != row["rank"] - 1 else gap(row, above)}
        for row, above in zip(rows, before, strict=False)
    ]


def gap(own: Row, above: Row) -> str:
    """Why the job above goes first, and the difference of the parts."""
    decided = decided_by(own, above)
    override = above.get("override")
    if decided == "override" and override in OVERRIDES:
        why = OVERRIDES[str(override)]
    else:
        why = DECISIONS["priority" if decided == "override" else decided]
    words = f"Job {above['id']} goes first because {why} ({above['priority'] - own['priority']:+,})."
    by_part = compared(own, above) if parts(own) and parts(above) else None
    return words if by_part is None else f"{words} It has more by part: {by_part}."
