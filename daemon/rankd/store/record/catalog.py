"""The configuration's names in the database, and their ids.

Every service brings its configuration in when it starts; the same configuration changes nothing. Ids are
never reused: a queue or account that is gone stays as a row, marked ``configured = 0``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.config.configuration import Configuration
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.amount import allowed_types
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.queue_entry import queue_entries
from rankd.core.model.association import ROOT, Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition, Queue, walk_queues, with_made
from rankd.core.model.setting import Qos
from rankd.store.record.adapter import in_force
from rankd.store.record.priority_class import read_classes, sync_classes
from rankd.store.record.queue_event import note_changes, snapshot


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Ids by name. Queues by (partition, path in lower case); associations by (account, user).

    ``made`` are the leaves that first use made (partition, path); ``removed`` the keys of queues that are no more.
    """

    queues: dict[tuple[str, str], int]
    made: list[tuple[str, str]] = []
    removed: set[tuple[str, str]] = set()
    qos: Mapping[str, int]
    associations: dict[tuple[str, str], int]
    accounts: frozenset[str]
    default_accounts: dict[str, str]
    classes: tuple[PriorityClass, ...]
    new_user_shares: float = 1.0
    """Of users whom the configuration does not list; 0 where they are to have no share."""


def sync_catalog(connection: Connection, configuration: Configuration, now: float) -> Catalog:
    """Write what the configuration names, as the inputs from outside change it; read back all ids."""
    return sync_names(connection, in_force(connection.exec_driver_sql, configuration).configuration, now)


def sync_names(connection: Connection, configuration: Configuration, now: float) -> Catalog:
    """The same of a configuration that the inputs have been laid over already."""
    before = snapshot(connection)
    _sync_queues(connection, configuration)
    note_changes(connection, before, now)
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
    queues = connection.exec_driver_sql("SELECT partition, path, id, configured FROM queues ORDER BY id").all()
    return Catalog(
        queues={(partition, path.lower()): id_ for partition, path, id_, _ in queues},
        made=made_leaves(connection),
        removed={(partition, path.lower()) for partition, path, _, configured in queues if not configured},
        qos={row[0]: row[1] for row in connection.exec_driver_sql("SELECT name, id FROM qos")},
        associations={(account, user): id_ for account, user, id_, _ in rows},
        accounts=frozenset(account for account, *_ in rows),
        default_accounts=first | {user: account for account, user, is_default in users if is_default},
        classes=read_classes(connection),
    )


def admission_tables(
    configuration: Configuration, catalog: Catalog, node_types: Collection[str] = ()
) -> AdmissionTables:
    """What submissions are held against; ``node_types`` are the resource types that nodes offer."""
    return AdmissionTables(
        settings=configuration.settings,
        classes=ClassTable.of(catalog.classes),
        partitions=tuple(partition.name for partition in configuration.partitions),
        queues={
            key: entry
            for partition in live_partitions(configuration, list(catalog.made))
            for key, entry in queue_entries(partition).items()
        },
        removed=frozenset(catalog.removed),
        groups=configuration.groups,
        # copied in one step: the writer's thread may be adding to it
        associations=frozenset(pair for pair in list(catalog.associations) if pair[1]),
        accounts=catalog.accounts,
        default_accounts=catalog.default_accounts,
        resource_types=allowed_types(configuration.settings, configuration.partitions, node_types),
    )


def live_partitions(configuration: Configuration, made: Sequence[tuple[str, str]]) -> list[Partition]:
    """The configured partitions with the leaf queues (partition, path) that first use made."""
    return [
        with_made(partition, [path for name, path in made if name == partition.name])
        for partition in configuration.partitions
    ]


def made_leaves(connection: Connection) -> list[tuple[str, str]]:
    """The leaves that first use made and that the configuration still allows, (partition, path)."""
    query = "SELECT partition, path FROM queues WHERE dynamic AND configured AND is_leaf ORDER BY id"
    return [(partition, path) for partition, path in connection.exec_driver_sql(query)]


def is_parent(queue: Queue) -> bool:
    """Whether jobs can't be submitted to it."""
    return queue.parent or bool(queue.queues)


def _sync_queues(connection: Connection, configuration: Configuration) -> None:
    """The configured queues, and those made on first use as far as the configuration still allows them."""
    known = connection.exec_driver_sql("SELECT partition, path, dynamic, is_leaf FROM queues ORDER BY id").all()
    made = [(partition, path) for partition, path, dynamic, is_leaf in known if dynamic and is_leaf]
    configured = {
        (partition.name, queue.path.lower())
        for partition in configuration.partitions
        for queue in walk_queues(partition.root)
    }
    live = [(p.name, queue) for p in live_partitions(configuration, made) for queue in walk_queues(p.root)]
    _respell(connection, {(name, path.lower()): path for name, path, *_ in known}, live)
    connection.exec_driver_sql("UPDATE queues SET configured = 0")
    store_queues(connection, [(name, queue, (name, queue.path.lower()) not in configured) for name, queue in live])


def _respell(connection: Connection, known: Mapping[tuple[str, str], str], live: Sequence[tuple[str, Queue]]) -> None:
    """A queue that is written in other letters now is the same queue."""
    rows = [
        (queue.path, partition, known[partition, queue.path.lower()])
        for partition, queue in live
        if known.get((partition, queue.path.lower()), queue.path) != queue.path
    ]
    if rows:
        connection.exec_driver_sql("UPDATE queues SET path = ? WHERE partition = ? AND path = ?", rows)


def store_queues(connection: Connection, queues: Sequence[tuple[str, Queue, bool]]) -> None:
    """Write queues (partition, queue, whether made on first use); those that are there get these settings."""
    rows = [
        (
            partition,
            queue.path,
            not is_parent(queue),
            queue.properties.priority_policy,
            queue.properties.priority_offset,
            queue.properties.sort_priority,
            queue.properties.sort_policy,
            queue.properties.priority_factor,
            json.dumps(queue.guaranteed),
            json.dumps(queue.max),
            queue.maxapplications,
            dynamic,
        )
        for partition, queue, dynamic in queues
    ]
    if not rows:
        return
    connection.exec_driver_sql(
        "INSERT INTO queues (partition, path, configured, is_leaf, policy, offset, sort_priority, sort_policy,"
        " factor, guaranteed, max, maxapplications, dynamic) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (partition, path) DO UPDATE SET configured = 1, is_leaf = excluded.is_leaf,"
        " policy = excluded.policy, offset = excluded.offset, sort_priority = excluded.sort_priority,"
        " sort_policy = excluded.sort_policy, factor = excluded.factor, guaranteed = excluded.guaranteed,"
        " max = excluded.max, maxapplications = excluded.maxapplications, dynamic = excluded.dynamic",
        rows,
    )


def forget_idle_queues(connection: Connection, now: float) -> None:
    """Queues made on first use are gone once no job waits or runs in them; the next use makes them again."""
    if not connection.exec_driver_sql("SELECT 1 FROM queues WHERE dynamic AND configured LIMIT 1").first():
        return
    before = snapshot(connection)
    connection.exec_driver_sql(
        "UPDATE queues SET configured = 0, dynamic = 0 WHERE dynamic AND is_leaf AND id NOT IN"
        " (SELECT queue_id FROM jobs WHERE state IN ('pending', 'allocated', 'running'))"
    )
    note_changes(connection, before, now)


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
