"""The identity of a rankd's database, so that a mismatch between a named broker and database can be reported."""

from __future__ import annotations

import msgspec


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The database of a running rankd. ``machine`` changes when the machine starts again.

    With PostgreSQL, ``machine`` names the server's data, and ``device`` is the number of the database.
    """

    machine: str
    device: int
    inode: int
