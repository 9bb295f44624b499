"""The visitor: own jobs, use, limits, and what the waiting jobs wait for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rankd.core.admission.submitter import Submitter
from rankd.core.model.job import FINAL_STATES
from rankd.core.model.wait_part import COLUMNS
from rankd.core.model.wait_word import WAITED
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.job_list import jobs
from rankd.store.look.share_list import shares
from rankd.store.look.waited import waited_of
from rankd.wire.job_selection import JobFilter

ROWS = 200
OPEN = ["pending", "allocated", "running"]
ENDED = sorted(state.value for state in FINAL_STATES)


async def me(page: Page, asker: Submitter, _given: Given) -> str:
    """What belongs to the visitor."""
    if not asker.user:
        return page.template.render("_me.html", user=None)
    found = await page.look(lambda reader: _read(reader, asker.user))
    now = page.clock()
    waited = Counter[str]()
    for row in found["open"]:
        if row["state"] == "pending":
            waited[row["reason"] or "next"] += max(0, int(now - row["submitted_at"]))
    limit = page.settings.admission.max_pending_per_user
    return page.template.render("_me.html", user=asker.user, **found, waited=waited.most_common(), limit=limit)


def _read(reader: Reader, user: str) -> dict[str, Any]:
    mine = jobs(reader, JobFilter(users=[user], states=OPEN, limit=ROWS))
    ended = jobs(reader, JobFilter(users=[user], states=ENDED, limit=20))
    n_jobs, seconds = waited_of(reader, user)
    return {
        "n_past": n_jobs,
        "past": [(WAITED[COLUMNS[cause]], amount) for cause, amount in seconds.items() if amount >= 1],
        "open": sorted(mine, key=lambda row: (row["state"] == "pending", row["rank"] or 0, row["id"])),
        "ended": ended[::-1],
        "shares": shares(reader, user),
    }
