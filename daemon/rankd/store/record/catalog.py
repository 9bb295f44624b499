"""The configuration's names in the database, and their ids.

Every service writes its configuration's names when it starts; the same configuration changes nothing. Ids are never
reused: the row of a removed queue or account stays, with ``configured`` false.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

import msgspec
from sqlalchemy import bindparam, select, update

from rankd.config.configuration import Configuration
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.amount import allowed_types
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.queue_entry import queue_entries
from rankd.core.admission.rights import Rights, with_given
from rankd.core.model.access import AccessList
from rankd.core.model.association import ROOT, Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition, Queue, walk_queues, with_made
from rankd.core.model.setting import Qos
from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.record.adapter import in_force
from rankd.store.record.catalog_version import raise_version
from rankd.store.record.priority_class import read_access, read_classes, sync_classes
from rankd.store.record.queue_event import note_changes, snapshot
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import associations, jobs, qos, queues

_QUEUES = select(queues).order_by(queues.c.id)
_MADE = _QUEUES.where(queues.c.dynamic, queues.c.configured, queues.c.is_leaf)
_RENAME = (
    update(queues)
    .where(queues.c.partition == bindparam("in_partition"), queues.c.path == bindparam("old"))
    .values(path=bindparam("new"))
)


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Ids by name. Queues by (partition, path in lower case); associations by (account, user).

    ``made``: the leaf queues (partition, path) that a job made; ``removed``: the keys of removed queues.
    """

    queues: dict[tuple[str, str], int]
    made: list[tuple[str, str]] = []
    removed: set[tuple[str, str]] = set()
    qos: Mapping[str, int]
    associations: dict[tuple[str, str], int]
    accounts: frozenset[str]
    default_accounts: dict[str, str]
    classes: tuple[PriorityClass, ...]
    access: Mapping[str, AccessList] = {}
    """The access lists that were given with classes while rankd runs. Those of the configuration go first."""
    new_user_shares: float = 1.0
    """The shares of users that the configuration does not list."""

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of names that first uses add."""
        return len(self.associations), len(self.made)


def sync_catalog(connection: Connection, configuration: Configuration, now: float) -> Catalog:
    """Write the names of the configuration with the adapters' inputs applied; returns all ids."""
    return sync_names(connection, in_force(connection.exec_driver_sql, configuration).configuration, now)


def sync_names(connection: Connection, configuration: Configuration, now: float) -> Catalog:
    """As :func:`sync_catalog`, for a configuration to which the adapters' inputs are already applied."""
    before = snapshot(connection)
    _sync_queues(connection, configuration)
    note_changes(connection, before, now)
    _sync_qos(connection, configuration.settings.qos)
    _sync_associations(connection, configuration.associations, now)
    sync_classes(connection, configuration.classes)
    raise_version(connection)
    return with_shares(read_catalog(connection), configuration)


def with_shares(catalog: Catalog, configuration: Configuration) -> Catalog:
    """The catalog with the shares that this configuration gives to users whom it does not list."""
    shares = 0.0 if configuration.settings.admission.unknown_association == "zero" else 1.0
    return msgspec.structs.replace(catalog, new_user_shares=shares)


def read_catalog(connection: Connection) -> Catalog:
    """All ids, and the classes in force."""
    of = associations.c
    listed_first = (of.configured.desc(), of.id)  # accounts that a user joined by a job come after those of the file
    rows = connection.execute(select(of.account, of.user, of.id, of.is_default).order_by(*listed_first)).all()
    users = [(account, user, is_default) for account, user, _, is_default in rows if user]
    first = {user: account for account, user, _ in reversed(users)}
    known = connection.execute(_QUEUES).all()
    return Catalog(
        queues={(row.partition, row.path.lower()): row.id for row in known},
        made=made_leaves(connection),
        removed={(row.partition, row.path.lower()) for row in known if not row.configured},
        qos={row.name: row.id for row in connection.execute(select(qos.c.name, qos.c.id))},
        associations={(account, user): id_ for account, user, id_, _ in rows},
        accounts=frozenset(account for account, *_ in rows),
        default_accounts=first | {user: account for account, user, is_default in users if is_default},
        classes=read_classes(connection),
        access=read_access(connection),
    )


def admission_tables(
    configuration: Configuration, catalog: Catalog, node_types: Collection[str] = ()
) -> AdmissionTables:
    """The tables that submissions are checked against; ``node_types``: the resource types that nodes offer."""
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
        rights=rights_of(configuration, catalog.access),
    )


def rights_of(configuration: Configuration, given: Mapping[str, AccessList]) -> Rights:
    """The rights that access lists give. Users who joined an account with their first job have none from that.

    ``given``: the lists that were given with classes while rankd runs.
    """
    lists = with_given(configuration.access, given)
    pairs = [(entry.account, entry.user) for entry in configuration.associations if entry.user is not None]
    return Rights.of(configuration.settings.qos, lists, pairs)


def live_partitions(configuration: Configuration, made: Sequence[tuple[str, str]]) -> list[Partition]:
    """The configured partitions with the leaf queues (partition, path) that jobs made."""
    return [
        with_made(partition, [path for name, path in made if name == partition.name])
        for partition in configuration.partitions
    ]


def made_leaves(connection: Connection) -> list[tuple[str, str]]:
    """The leaf queues (partition, path) that jobs made and that the configuration still allows."""
    return [(row.partition, row.path) for row in connection.execute(_MADE)]


def is_parent(queue: Queue) -> bool:
    """Whether the queue accepts no jobs itself."""
    return queue.parent or bool(queue.queues)


def _sync_queues(connection: Connection, configuration: Configuration) -> None:
    """Write the configured queues, and those queues made by jobs that the configuration still allows."""
    known = connection.execute(_QUEUES).all()
    made = [(row.partition, row.path) for row in known if row.dynamic and row.is_leaf]
    configured = {
        (partition.name, queue.path.lower())
        for partition in configuration.partitions
        for queue in walk_queues(partition.root)
    }
    live = [(p.name, queue) for p in live_partitions(configuration, made) for queue in walk_queues(p.root)]
    _respell(connection, {(row.partition, row.path.lower()): row.path for row in known}, live)
    connection.execute(update(queues).values(configured=False))
    store_queues(connection, [(name, queue, (name, queue.path.lower()) not in configured) for name, queue in live])


def _respell(connection: Connection, known: Mapping[tuple[str, str], str], live: Sequence[tuple[str, Queue]]) -> None:
    """Rename queues whose configured path differs from the stored one only in upper and lower case."""
    rows = [
        {"new": queue.path, "in_partition": partition, "old": known[partition, queue.path.lower()]}
        for partition, queue in live
        if known.get((partition, queue.path.lower()), queue.path) != queue.path
    ]
    if rows:
        connection.execute(_RENAME, rows)


def store_queues(connection: Connection, listed: Sequence[tuple[str, Queue, bool]]) -> None:
    """Write queues (partition, queue, whether a job made it). Existing queues get these settings."""
    rows = [
        {
            "partition": partition,
            "path": queue.path,
            "configured": True,
            "is_leaf": not is_parent(queue),
            "policy": queue.properties.priority_policy,
            "offset": queue.properties.priority_offset,
            "sort_priority": queue.properties.sort_priority,
            "sort_policy": queue.properties.sort_policy,
            "factor": queue.properties.priority_factor,
            "guaranteed": json.dumps(queue.guaranteed),
            "max": json.dumps(queue.max),
            "maxapplications": queue.maxapplications,
            "dynamic": is_made,
        }
        for partition, queue, is_made in listed
    ]
    upsert(connection, queues, ["partition", "path"], rows)


def forget_idle_queues(connection: Connection, now: float) -> None:
    """Remove the queues made by jobs in which no job waits or runs. The next job there makes its queue again."""
    if not made_leaves(connection):
        return
    before = snapshot(connection)
    in_use = select(jobs.c.queue_id).where(IS_ACTIVE)
    idle = update(queues).where(queues.c.dynamic, queues.c.is_leaf, queues.c.id.not_in(in_use))
    connection.execute(idle.values(configured=False, dynamic=False))
    raise_version(connection)
    note_changes(connection, before, now)


def _sync_qos(connection: Connection, configured: list[Qos]) -> None:
    rows = [
        {"name": one.name, "priority": one.priority, "factor": one.factor, "usage_factor": one.usage_factor}
        for one in configured
    ]
    upsert(connection, qos, ["name"], rows)


def _sync_associations(connection: Connection, configured: tuple[Association, ...], now: float) -> None:
    """Write the configured shares. Usage does not change; only a new association gets its initial usage."""
    rows = [
        {
            "account": entry.account,
            "user": entry.user or "",
            "parent": None if entry.user or entry.account == ROOT else entry.parent or ROOT,
            "shares": 0.0 if entry.shares == "parent" else entry.shares,
            "shares_parent": entry.shares == "parent",
            "priority": entry.priority,
            "is_default": entry.default,
            "configured": True,
            "usage": entry.usage,
            "usage_at": now if entry.usage_at is None else entry.usage_at,
        }
        for entry in (Association(account=ROOT), *configured)
    ]
    connection.execute(update(associations).where(associations.c.configured).values(configured=False, is_default=False))
    upsert(connection, associations, ["account", "user"], rows, kept=("usage", "usage_at"))


def add_association(connection: Connection, account: str, user: str, shares: float, now: float) -> int:
    """The id of (account, user), made if this is the user's first job in an account that is open to all."""
    of = associations.c
    row = {"account": account, "user": user, "shares": shares, "configured": False, "usage_at": now}
    upsert(connection, associations, ["account", "user"], [row], kept=row)
    raise_version(connection)
    found = select(of.id).where(of.account == account, of.user == user)
    return int(connection.execute(found).scalar_one())
