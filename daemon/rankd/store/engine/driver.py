"""The one copy of SQLite that this process uses. Import ``sqlite3`` only from here.

Two copies of SQLite in one process corrupt a file that both have open. When one closes a file, the process loses all
its locks on the file, including those of the other copy (sqlite.org/howtocorrupt.html, 2.2.1). Other processes may use
any SQLite.

The wheel ``pysqlite3`` has a newer SQLite than most systems. Without such a wheel, the standard library's SQLite is
used.
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
"""Older versions can corrupt a file if one connection writes while another checkpoints (sqlite.org/wal.html)."""


def _null(_value: None) -> None:
    """None is stored as NULL."""
    return


# The driver asks how to store each value that is not exactly a str, int, float or bytes. Without an answer it searches
# the value for the methods of PEP 246: a None costs 0.9 us (pysqlite3) or 0.3 us (standard library), so 0.1 us.
sqlite3.register_adapter(type(None), _null)
sqlite3.register_adapter(bool, int)
