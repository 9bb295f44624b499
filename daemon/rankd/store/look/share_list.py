"""Accounts and users: their shares, their usage and their fair share.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import math

from rankd.store.engine.reading import Reader, Row, fetch


def accounts_part(connection: Reader, account: str) -> float | None:
    """The product of the parts of shares down to this account; None without a generation that has it."""
    rows = fetch(
        connection, 'SELECT shares_norm FROM association_share WHERE account = ? AND "user" IS NULL', [account]
    )
    found: float | None = rows[0]["shares_norm"] if rows else None
    return found


def share_to_compare(row: Row, above: float | None) -> float | None:
    """The share to which ``usage_effective`` compares. ``above``: ``shares_norm`` of what is above; None at the top.

    With fair tree, both are parts among siblings. With the classic formula, both are parts of the whole. None: there is
    no own share, or no generation yet.
    """
    part: float | None = row["shares_norm"]
    if part is None or isinstance(row["shares"], str):
        return None
    return part / above if above and row["level_fairshare"] is not None else part


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
