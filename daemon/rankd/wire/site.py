"""Which records a rankd keeps: so that somebody who names a broker and a database can be told that they differ."""

from __future__ import annotations

import msgspec


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The database file of a running rankd. ``machine`` changes when the machine starts again."""

    machine: str
    device: int
    inode: int
