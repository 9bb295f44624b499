"""The version of the catalog: raised with each change of names, of classes, of the configuration, or of inputs.

An intake that finds another version than its own has an old catalog. The version is raised in the transaction of the
change, so a writer that has the lock of all writers knows whether its catalog is the present one.
"""

from __future__ import annotations

from sqlalchemy import insert, select, update

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import versions

CATALOG = "catalog"
"""The name of the version in its table."""
_RAISE = update(versions).where(versions.c.name == CATALOG).values(number=versions.c.number + 1)
_FIRST = insert(versions).values(name=CATALOG, number=1)
_NUMBER = select(versions.c.number).where(versions.c.name == CATALOG)


def raise_version(connection: Connection) -> None:
    """Note a change of the catalog."""
    if connection.execute(_RAISE).rowcount == 0:
        connection.execute(_FIRST)


def catalog_version(connection: Connection) -> int:
    """The present version; 0 before the first change."""
    return connection.execute(_NUMBER).scalar() or 0
