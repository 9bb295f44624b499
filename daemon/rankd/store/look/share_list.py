"""Accounts and users: their shares, their usage and their fair share.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import math

from rankd.store.engine.reading import Reader, Row, fetch


def shares(connection: Reader, user: str | None = None) -> list[Row]:
    """The accounts (``user`` None) and their users. ``parent`` names the account above. ``user``: only this one's rows.

    An infinite ``level_fairshare`` is the text ``inf``, because JSON has no number for it.
    """
    where, given = ("", []) if user is None else (' WHERE "user" = ?', [user])
    order = 'ORDER BY account, "user" IS NOT NULL, "user"'
    rows = fetch(connection, f"SELECT * FROM association_share{where} {order}", given)
    for row in rows:
        if row["level_fairshare"] == math.inf:
            row["level_fairshare"] = "inf"
    return rows
