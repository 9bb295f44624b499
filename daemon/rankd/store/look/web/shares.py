"""Fair share: the accounts with the users whom the asker sees, and what the asker's outlook is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.core.admission.privacy import seen_shares
from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.share_list import share_to_compare, shares
from rankd.store.look.web.look import Given, Look

MOST = 500
"""Accounts and users that are shown."""


class Own(NamedTuple):
    """The asker in one account. ``others``: use of the other users there. ``share``: the own part; None: none."""

    row: Row
    others: float
    share: float | None


class SharesShown(NamedTuple):
    """The first rows of the tree, and how many it has. ``own``: one entry for each account of the asker.

    A row has its ``depth`` in the tree, and as ``part`` the share to which its use compares.
    """

    rows: list[Row]
    n: int
    own: list[Own]


def _shares(reader: Reader, asker: Submitter, _given: Given) -> SharesShown:
    everything = shares(reader)
    own = [_own(row, everything) for row in everything if asker.user and row["user"] == asker.user]
    parts = {row["account"]: row["shares_norm"] for row in everything if row["user"] is None}
    tree = _tree(seen_shares(everything, asker))
    rows = [row | {"part": share_to_compare(row, parts.get(row["parent"] if row["user"] is None else row["account"]))}
            for row in tree[:MOST]]  # fmt: skip
    return SharesShown(rows, len(tree), own)


SHARES = Look("shares", SharesShown, _shares, is_list=True)


def _own(own: Row, rows: list[Row]) -> Own:
    siblings = [row for row in rows if row["account"] == own["account"] and row["user"] is not None]
    whole = sum(row["shares"] for row in siblings if isinstance(row["shares"], int | float))
    has_share = isinstance(own["shares"], int | float) and whole
    others = sum(row["usage"] for row in siblings) - own["usage"]
    return Own(own, others, own["shares"] / whole if has_share else None)


def _tree(rows: Sequence[Row]) -> list[Row]:
    """Accounts below their parents, users below their accounts."""
    below: dict[str | None, list[Row]] = {}
    users: dict[str, list[Row]] = {}
    names = {row["account"] for row in rows if row["user"] is None}
    for row in rows:
        if row["user"] is None:
            below.setdefault(row["parent"] if row["parent"] in names else None, []).append(row)
        else:
            users.setdefault(row["account"], []).append(row)
    found, open_rows = list[Row](), [(row, 0) for row in reversed(below.get(None, []))]
    while open_rows:
        row, depth = open_rows.pop()
        found.append(row | {"depth": depth})
        found += [user | {"depth": depth + 1} for user in users.pop(row["account"], [])]
        open_rows += [(child, depth + 1) for child in reversed(below.get(row["account"], []))]
    return found + [user | {"depth": 0} for rest in users.values() for user in rest]
