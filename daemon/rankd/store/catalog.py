"""The configuration's names in the database, and their ids.

Every service brings its configuration in when it starts; the same configuration changes nothing. Ids are
never reused: a queue or account that is gone stays as a row, marked ``configured = 0``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec
from sqlalchemy import Connection

from rankd.config.configuration import Configuration
from rankd.core.admission.admit import AdmissionTables, QueueEntry
from rankd.core.admission.priority_class import ClassTable
from rankd.core.model.association import ROOT, Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Queue
from rankd.core.model.setting import Qos
from rankd.store.priority_class import read_classes, sync_classes


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Ids by name. Queues by (partition, path in lower case); associations by (account, user)."""

    queues: Mapping[tuple[str, str], int]
    qos: Mapping[str, int]
    associations: dict[tuple[str, str], int]
    accounts: frozenset[str]
    default_accounts: dict[str, str]
    classes: tuple[PriorityClass, ...]
    new_user_shares: float = 1.0
    """Of users whom the configuration does not list; 0 where they are to have no share."""


def sync_catalog(connection: Connection, configuration: Configuration, now: float) -> Catalog:
    """Write what the configuration names; read back all ids."""
    _sync_queues(connection, configuration)
    _sync_qos(connection, configuration.settings.qos)
    _sync_associations(connection, configuration.associations, now)
    sync_classes(connection, configuration.classes)
    shares = 0.0 if configuration.settings.admission.unknown_association == "zero" else 1.0
    return msgspec.structs.replace(read_catalog(connection), new_user_shares=shares)


def read_catalog(connection: Connection) -> Catalog:
    """All ids, and the classes in force."""
    rows = connection.exec_driver_sql('SELECT account, "user", id, is_default FROM associations ORDER BY id').all()
    users = [(account, user, is_default) for account, user, _, is_default in rows if user]
    first = {user: account for account, user, _ in reversed(users)}
    return Catalog(
        queues={
            (partition, path.lower()): id_
            for partition, path, id_ in connection.exec_driver_sql("SELECT partition, path, id FROM queues")
        },
        qos={row[0]: row[1] for row in connection.exec_driver_sql("SELECT name, id FROM qos")},
        associations={(account, user): id_ for account, user, id_, _ in rows},
        accounts=frozenset(account for account, *_ in rows),
        default_accounts=first | {user: account for account, user, is_default in users if is_default},
        classes=read_classes(connection),
    )


def admission_tables(configuration: Configuration, catalog: Catalog) -> AdmissionTables:
    """What submissions are held against."""
    return AdmissionTables(
        settings=configuration.settings,
        classes=ClassTable.of(catalog.classes),
        partitions=tuple(partition.name for partition in configuration.partitions),
        queues={
            (partition.name, queue.path.lower()): QueueEntry(
                partition=partition.name, path=queue.path, is_leaf=not is_parent(queue), maximum=maximum
            )
            for partition in configuration.partitions
            for queue, maximum in _with_maximum(partition.root, {})
        },
        # copied in one step: the writer's thread may be adding to it
        associations=frozenset(pair for pair in list(catalog.associations) if pair[1]),
        accounts=catalog.accounts,
        default_accounts=catalog.default_accounts,
    )


def is_parent(queue: Queue) -> bool:
    """Whether jobs can't be submitted to it."""
    return queue.parent or bool(queue.queues)


def walk_queues(queue: Queue) -> Iterator[Queue]:
    """The queue and all below, parents first."""
    yield queue
    for child in queue.queues:
        yield from walk_queues(child)


def _with_maximum(queue: Queue, above: Mapping[str, int]) -> Iterator[tuple[Queue, dict[str, int]]]:
    least = dict(above)
    for kind, amount in queue.max.items():
        least[kind] = min(amount, least.get(kind, amount))
    yield queue, least
    for child in queue.queues:
        yield from _with_maximum(child, least)


def _sync_queues(connection: Connection, configuration: Configuration) -> None:
    connection.exec_driver_sql("UPDATE queues SET configured = 0")
    rows = [
        (
            partition.name,
            queue.path,
            not is_parent(queue),
            queue.properties.priority_policy,
            queue.properties.priority_offset,
            queue.properties.sort_priority,
            queue.properties.sort_policy,
            queue.properties.priority_factor,
            json.dumps(queue.guaranteed),
            json.dumps(queue.max),
        )
        for partition in configuration.partitions
        for queue in walk_queues(partition.root)
    ]
    if not rows:
        return
    connection.exec_driver_sql(
        "INSERT INTO queues (partition, path, configured, is_leaf, policy, offset, sort_priority, sort_policy,"
        " factor, guaranteed, max) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (partition, path) DO UPDATE SET configured = 1, is_leaf = excluded.is_leaf,"
        " policy = excluded.policy, offset = excluded.offset, sort_priority = excluded.sort_priority,"
        " sort_policy = excluded.sort_policy, factor = excluded.factor, guaranteed = excluded.guaranteed,"
        " max = excluded.max",
        rows,
    )


def _sync_qos(connection: Connection, all_qos: list[Qos]) -> None:
    connection.exec_driver_sql(
        "INSERT INTO qos (name, priority, factor, usage_factor) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET priority = excluded.priority, factor = excluded.factor,"
        " usage_factor = excluded.usage_factor",
        [(qos.name, qos.priority, qos.factor, qos.usage_factor) for qos in all_qos],
    )


def _sync_associations(connection: Connection, associations: tuple[Association, ...], now: float) -> None:
    """Shares as configured; usage is never touched, but for what an association starts with."""
    rows = [
        (
            entry.account,
            entry.user or "",
            None if entry.user or entry.account == ROOT else entry.parent or ROOT,
            0.0 if entry.shares == "parent" else entry.shares,
            entry.shares == "parent",
            entry.priority,
            entry.default,
            entry.usage,
            now if entry.usage_at is None else entry.usage_at,
        )
        for entry in (Association(account=ROOT), *associations)
    ]
    connection.exec_driver_sql("UPDATE associations SET configured = 0, is_default = 0 WHERE configured = 1")
    connection.exec_driver_sql(
        'INSERT INTO associations (account, "user", parent, shares, shares_parent, priority, is_default,'
        " configured, usage, usage_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"
        ' ON CONFLICT (account, "user") DO UPDATE SET parent = excluded.parent, shares = excluded.shares,'
        " shares_parent = excluded.shares_parent, priority = excluded.priority,"
        " is_default = excluded.is_default, configured = 1",
        rows,
    )


def add_association(connection: Connection, account: str, user: str, shares: float, now: float) -> int:
    """A user's first job in an account that is open to all; does nothing if it is there."""
    connection.exec_driver_sql(
        'INSERT INTO associations (account, "user", shares, configured, usage_at) VALUES (?, ?, ?, 0, ?)'
        ' ON CONFLICT (account, "user") DO NOTHING',
        (account, user, shares, now),
    )
    query = 'SELECT id FROM associations WHERE account = ? AND "user" = ?'
    return int(connection.exec_driver_sql(query, (account, user)).scalar_one())
