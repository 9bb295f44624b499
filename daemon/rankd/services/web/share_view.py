"""Fair share: shares and use side by side, and when the visitor is back at par."""

from __future__ import annotations

from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.par import outlook
from rankd.services.web.view import Given
from rankd.store.look.web.shares import SHARES


async def shares(page: Page, asker: Submitter, given: Given) -> str:
    """The tree of accounts, and the visitor's outlook."""
    found = await page.look(SHARES, asker, given)
    half_life_s = page.settings.half_life_s
    own = [
        (row, None if share is None else outlook(row["usage"], others, share, half_life_s))
        for row, others, share in found.own
    ]
    return page.template.render(
        "_shares.html", rows=found.rows, n=found.n, outlooks=own, half_life_s=half_life_s,
        is_tree=any(row["level_fairshare"] is not None for row in found.rows),
    )  # fmt: skip
