"""Fair share: shares and use side by side, and when the visitor is back at par."""

from __future__ import annotations

from typing import Any

from rankd.core.admission.privacy import Row
from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.par import outlook
from rankd.services.web.view import Given
from rankd.store.look.web.shares import SHARES

MOST = 500


async def shares(page: Page, asker: Submitter, given: Given) -> str:
    """The tree of accounts, and the visitor's outlook."""
    found = await page.look(SHARES, asker, given)
    half_life_s = page.settings.half_life_s
    own = [
        (row, None if share is None else outlook(row["usage"], others, share, half_life_s))
        for row, others, share in found.own
    ]
    rows = _tree(found.rows)
    return page.template.render(
        "_shares.html", rows=rows[:MOST], n=len(rows), outlooks=own, half_life_s=half_life_s,
        is_tree=any(row["level_fairshare"] is not None for row in rows),
    )  # fmt: skip


def _tree(rows: list[Row]) -> list[dict[str, Any]]:
    """Accounts below their parents, users below their accounts."""
    below: dict[str | None, list[Row]] = {}
    users: dict[str, list[Row]] = {}
    names = {row["account"] for row in rows if row["user"] is None}
    for row in rows:
        if row["user"] is None:
            below.setdefault(row["parent"] if row["parent"] in names else None, []).append(row)
        else:
            users.setdefault(row["account"], []).append(row)
    found, open_rows = list[dict[str, Any]](), [(row, 0) for row in reversed(below.get(None, []))]
    while open_rows:
        row, depth = open_rows.pop()
        found.append(row | {"depth": depth})
        found += [user | {"depth": depth + 1} for user in users.pop(row["account"], [])]
        open_rows += [(child, depth + 1) for child in reversed(below.get(row["account"], []))]
    return found + [user | {"depth": 0} for rest in users.values() for user in rest]
