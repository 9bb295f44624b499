"""Fair share: shares and use side by side, and when the visitor is back at par."""

from __future__ import annotations

from typing import Any

from rankd.core.admission.privacy import Row, seen_shares
from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page
from rankd.services.web.par import Outlook, outlook
from rankd.services.web.view import Given
from rankd.store.look.share_list import shares as share_list

MOST = 500


async def shares(page: Page, asker: Submitter, _given: Given) -> str:
    """The tree of accounts, and the visitor's outlook."""
    everything = await page.look(share_list)
    half_life_s = page.settings.priority.fairshare.half_life_s
    own = [
        (row, _outlook(row, everything, half_life_s)) for row in everything if asker.user and row["user"] == asker.user
    ]
    rows = _tree(list(seen_shares(everything, asker)))
    return page.template.render(
        "_shares.html", rows=rows[:MOST], n=len(rows), outlooks=own, half_life_s=half_life_s,
        most=max((row["usage_effective"] or 0.0 for row in rows), default=0.0),
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


def _outlook(own: Row, rows: list[Row], half_life_s: float | None) -> Outlook | None:
    """The curve of a user in one account; None where the user has no share of its own."""
    siblings = [row for row in rows if row["account"] == own["account"] and row["user"] is not None]
    numbers = [row["shares"] for row in siblings if isinstance(row["shares"], int | float)]
    if not isinstance(own["shares"], int | float) or not sum(numbers):
        return None
    others = sum(row["usage"] for row in siblings) - own["usage"]
    return outlook(own["usage"], others, own["shares"] / sum(numbers), half_life_s)
