"""The identity of a rankd's database, so that a mismatch between a named broker and database can be reported."""

from __future__ import annotations

import msgspec


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The database file of a running rankd. ``machine`` changes when the machine starts again."""

    machine: str
    device: int
    inode: int
