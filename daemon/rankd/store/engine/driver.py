"""The one copy of SQLite that this process uses: import ``sqlite3`` from here, and from nowhere else.

Two copies of SQLite in one process corrupt a file that both have open: closing a file gives back all locks that the
process has on it, those of the other copy as well (sqlite.org/howtocorrupt.html, 2.2.1). Other processes may use any
SQLite.

The wheel ``pysqlite3`` brings a newer SQLite than most systems have. Where there is no such wheel, the standard
library's is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:
        import sqlite3

__all__ = ["CHECKPOINTS_BESIDE_WRITERS", "sqlite3"]

CHECKPOINTS_BESIDE_WRITERS = sqlite3.sqlite_version_info >= (3, 51, 3)
"""Older ones can corrupt a file that one connection writes while another checkpoints (sqlite.org/wal.html)."""
