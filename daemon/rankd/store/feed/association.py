"""The account tree's associations, with the usage that has been settled into each."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import false, func, select

from rankd.core.model.association import ROOT, Association
from rankd.store.engine.connection import Connection
from rankd.store.schema.table import associations


class AssociationsVersion(NamedTuple):
    """Another value whenever an association has been added: how many there are, and the largest id."""

    size: int
    last_id: int


class AssociationRow(NamedTuple):
    """An association. ``usage`` in billing units times seconds at ``usage_at`` (UTC seconds).

    ``is_configured`` is false for a user who was added by a first job.
    """

    id: int
    association: Association
    usage: float
    usage_at: float
    is_configured: bool


def associations_version(connection: Connection) -> AssociationsVersion:
    """What :func:`read_associations` would read."""
    query = select(func.count(), func.coalesce(func.max(associations.c.id), 0)).select_from(associations)
    return AssociationsVersion._make(connection.execute(query).one())


_COLUMNS = (
    associations.c.id,
    associations.c.account,
    associations.c.user,
    associations.c.parent,
    associations.c.shares,
    associations.c.shares_parent,
    associations.c.is_default,
    associations.c.priority,
    associations.c.usage,
    associations.c.usage_at,
    associations.c.configured,
)


def read_associations(connection: Connection) -> list[AssociationRow]:
    """All associations by id, with root and accounts. Reading the fields by name would take three times as long."""
    rows = connection.execute(select(*_COLUMNS).order_by(associations.c.id))
    found = []
    for id_, account, user, parent, shares, shares_parent, is_default, priority, usage, usage_at, configured in rows:
        association = Association(
            account=account,
            user=user or None,
            parent=None if user or account == ROOT else parent or ROOT,
            shares="parent" if shares_parent else shares,
            default=is_default,
            priority=priority,
        )
        found.append(AssociationRow(id_, association, usage, usage_at, configured))
    return found


def unconfigured_users(connection: Connection) -> frozenset[int]:
    """The associations of users whom the configuration does not list."""
    columns = associations.c
    query = select(columns.id).where(columns.user != "", columns.configured == false())
    return frozenset(connection.execute(query).scalars())
