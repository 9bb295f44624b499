"""The account tree's associations, with the settled usage of each."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, not_, select

from rankd.core.model.association import ROOT, Association
from rankd.store.engine.connection import Connection
from rankd.store.schema.table import associations


class AssociationsVersion(NamedTuple):
    """Changes whenever an association is added: the number of associations, and the largest id."""

    size: int
    last_id: int


class AssociationRow(NamedTuple):
    """An association. ``usage`` is in billing units times seconds, as of ``usage_at`` (UTC seconds).

    ``is_configured`` is false for a user whose first job added the association.
    """

    id: int
    association: Association
    usage: float
    usage_at: float
    is_configured: bool


def associations_version(connection: Connection) -> AssociationsVersion:
    """The version of the associations that :func:`read_associations` would read."""
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
    """All associations by id, including root and accounts. Reads by position: by name takes three times as long."""
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
    """The associations of users that the configuration does not list."""
    columns = associations.c
    query = select(columns.id).where(columns.user != "", not_(columns.configured))
    return frozenset(connection.execute(query).scalars())
