"""Inputs from outside, which override the configuration. Later adapters override earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.adapter.input import AssociationRow, GroupRow, QosRow
from rankd.core.model.association import ROOT, Association
from rankd.core.model.setting import Qos


def overlay_associations(base: Sequence[Association], rows: Iterable[AssociationRow]) -> tuple[Association, ...]:
    """The configured associations with the shares, parents, priorities and defaults of the rows. New ones are appended.

    If a row makes an account the default of a user, the user's other accounts are no longer the default.
    """
    merged = {(entry.account, entry.user): entry for entry in base}
    defaults: dict[str, str] = {}
    for row in rows:
        key = (row.account, row.user)
        merged[key] = _changed(merged.get(key) or Association(account=row.account, user=row.user), row)
        if row.default and row.user is not None:
            defaults[row.user] = row.account
    return tuple(_marked(entry, defaults) for entry in merged.values())


def _changed(entry: Association, row: AssociationRow) -> Association:
    is_account = row.user is None and row.account != ROOT
    return Association(
        account=entry.account,
        user=entry.user,
        parent=row.parent if is_account and row.parent is not None else entry.parent,
        shares=entry.shares if row.shares is None else row.shares,
        usage=entry.usage,
        usage_at=entry.usage_at,
        priority=entry.priority if row.priority is None else row.priority,
        default=entry.default if row.default is None else row.default,
    )


def _marked(entry: Association, defaults: Mapping[str, str]) -> Association:
    if entry.user is None or not entry.default or defaults.get(entry.user, entry.account) == entry.account:
        return entry
    return msgspec.structs.replace(entry, default=False)


def overlay_qos(base: Sequence[Qos], rows: Iterable[QosRow]) -> list[Qos]:
    """The configured QoS with the values of the rows. New ones are appended."""
    merged = {qos.name: qos for qos in base}
    for row in rows:
        given = {"priority": row.priority, "factor": row.factor, "usage_factor": row.usage_factor}
        changed = {name: value for name, value in given.items() if value is not None}
        merged[row.name] = msgspec.structs.replace(merged.get(row.name) or Qos(name=row.name), **changed)
    return list(merged.values())


def overlay_groups(base: Mapping[str, tuple[str, ...]], rows: Iterable[GroupRow]) -> dict[str, tuple[str, ...]]:
    """The groups of each user, from the configuration and from the rows, sorted."""
    groups = {user: set(names) for user, names in base.items()}
    for row in rows:
        groups.setdefault(row.user, set()).add(row.group)
    return {user: tuple(sorted(names)) for user, names in groups.items()}
