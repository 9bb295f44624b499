"""Priority classes in the database: read, and changed by one operation on the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from rankd.core.admission.priority_class import ClassTable
from rankd.core.model.priority_class import PriorityClass

_UPSERT = """
INSERT INTO priority_classes (name, value, global_default, description, preemption_policy) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET global_default = excluded.global_default, description = excluded.description"""


def read_classes(connection: Connection) -> tuple[PriorityClass, ...]:
    """The classes as stored."""
    rows = connection.exec_driver_sql(
        "SELECT name, value, global_default, description, preemption_policy FROM priority_classes ORDER BY name"
    )
    return tuple(
        PriorityClass(
            name=name, value=value, global_default=bool(is_default), description=description, preemption_policy=policy
        )
        for name, value, is_default, description, policy in rows
    )


def sync_classes(connection: Connection, configured: Iterable[PriorityClass]) -> None:
    """A configuration file creates what is missing; it never changes nor deletes."""
    change_classes(connection, lambda table: table.reconcile(configured).table)


def change_classes(connection: Connection, operate: Callable[[ClassTable], ClassTable]) -> ClassTable:
    """Apply an operation; returns the table afterwards.

    Raises:
        Refused: what the operation refuses; nothing is written then.
    """
    before = {given.name: given for given in read_classes(connection)}
    after = operate(ClassTable.of(before.values()))
    gone = [(name,) for name in before if name not in after.classes]
    changed = [
        (given.name, given.value, given.global_default, given.description, given.preemption_policy)
        for given in after.listed()
        if before.get(given.name) != given
    ]
    if gone:
        connection.exec_driver_sql("DELETE FROM priority_classes WHERE name = ?", gone)
    if changed:
        connection.exec_driver_sql(_UPSERT, changed)
    return after
