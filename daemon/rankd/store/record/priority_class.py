"""Priority classes in the database: read, or changed by one operation on the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from sqlalchemy import delete, select, update

from rankd.core.admission.priority_class import ClassTable
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PriorityClass
from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.record.catalog_version import raise_version
from rankd.store.schema.table import priority_classes


def read_classes(connection: Connection) -> tuple[PriorityClass, ...]:
    """The stored classes, by name."""
    rows = connection.execute(select(priority_classes).order_by(priority_classes.c.name)).mappings()
    return tuple(PriorityClass(**{field: row[field] for field in PriorityClass.__struct_fields__}) for row in rows)


def read_access(connection: Connection) -> dict[str, AccessList]:
    """The access lists that were given with classes, by name of the class."""
    of = priority_classes.c
    rows = connection.execute(select(of.name, of.access).where(of.access.is_not(None)))
    return {name: msgspec.json.decode(access, type=AccessList) for name, access in rows}


def write_access(connection: Connection, name: str, access: AccessList | None) -> None:
    """Store the access list of a class; None removes it."""
    text = None if access is None else msgspec.json.encode(access).decode()
    connection.execute(update(priority_classes).where(priority_classes.c.name == name).values(access=text))
    raise_version(connection)


def sync_classes(connection: Connection, configured: Iterable[PriorityClass]) -> None:
    """Create the missing classes of a configuration file. Existing ones stay unchanged."""
    change_classes(connection, lambda table: table.reconcile(configured).table)


def change_classes(connection: Connection, operate: Callable[[ClassTable], ClassTable]) -> ClassTable:
    """Apply an operation to the table of classes; returns the table afterwards.

    A class keeps its value and its preemption policy as long as it exists.

    Raises:
        Refused: the operation refused; nothing is written.
    """
    before = {stored.name: stored for stored in read_classes(connection)}
    after = operate(ClassTable.of(before.values()))
    deleted = [name for name in before if name not in after.classes]
    changed = [msgspec.structs.asdict(one) for one in after.listed() if before.get(one.name) != one]
    if deleted:
        connection.execute(delete(priority_classes).where(priority_classes.c.name.in_(deleted)))
    upsert(connection, priority_classes, ["name"], changed, kept=("value", "preemption_policy"))
    if deleted or changed:
        raise_version(connection)
    return after
