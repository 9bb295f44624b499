"""Fair share: the accounts with the users whom the asker sees, and what the asker's outlook is computed from."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.privacy import seen_shares
from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.share_list import share_to_compare, shares
from rankd.store.look.web.look import Given, Look


class Own(NamedTuple):
    """The asker in one account. ``others``: use of the other users there. ``share``: the own part; None: none."""

    row: Row
    others: float
    share: float | None


class SharesShown(NamedTuple):
    """``own``: one entry for each account of the asker. ``part`` of a row: the share to which its use compares."""

    rows: list[Row]
    own: list[Own]


def _shares(reader: Reader, asker: Submitter, _given: Given) -> SharesShown:
    everything = shares(reader)
    own = [_own(row, everything) for row in everything if asker.user and row["user"] == asker.user]
    parts = {row["account"]: row["shares_norm"] for row in everything if row["user"] is None}
    seen = seen_shares(everything, asker)
    rows = [row | {"part": share_to_compare(row, parts.get(row["parent"] if row["user"] is None else row["account"]))}
            for row in seen]  # fmt: skip
    return SharesShown(rows, own)


SHARES = Look("shares", SharesShown, _shares, is_list=True)


def _own(own: Row, rows: list[Row]) -> Own:
    siblings = [row for row in rows if row["account"] == own["account"] and row["user"] is not None]
    whole = sum(row["shares"] for row in siblings if isinstance(row["shares"], int | float))
    has_share = isinstance(own["shares"], int | float) and whole
    others = sum(row["usage"] for row in siblings) - own["usage"]
    return Own(own, others, own["shares"] / whole if has_share else None)
