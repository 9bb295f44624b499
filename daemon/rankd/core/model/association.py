"""The entries of the account tree: the same in configuration, database and evaluate documents."""

from __future__ import annotations

from typing import Literal

import msgspec

ROOT = "root"


class Association(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An account (``user`` None) or a user in an account.

    ``parent`` is the account above (accounts only; default root). ``shares``: at least 0, or ``parent``.
    ``usage`` is in billing units times seconds at ``usage_at`` (UTC seconds). ``usage_at`` None means now: the usage
    does not decay first.
    """

    account: str
    user: str | None = None
    parent: str | None = None
    shares: float | Literal["parent"] = 1.0
    usage: float = 0.0
    usage_at: float | None = None
    priority: int = 0
    default: bool = False
