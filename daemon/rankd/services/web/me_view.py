"""The visitor: own jobs, use, limits, and what the waiting jobs wait for."""

from __future__ import annotations

from collections import Counter

from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.look.web.me import ME


async def me(page: Page, asker: Submitter, given: Given) -> str:
    """What belongs to the visitor."""
    if not asker.user:
        return page.template.render("_me.html", user=None)
    found, now = await page.look(ME, asker, given), page.clock()
    waited = Counter[str]()
    for row in found.open:
        if row["state"] == "pending":
            waited[row["reason"] or "next"] += max(0, int(now - row["submitted_at"]))
    limit = page.settings.max_pending_per_user
    return page.template.render(
        "_me.html", user=asker.user, **found._asdict(), waited=waited.most_common(), limit=limit
    )
