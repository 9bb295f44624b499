"""Records the groups that the intake has read from the head's user database."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import delete

from rankd.core.admission.user_group import Groups
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.upsert import upsert
from rankd.store.engine.word import TEXTS
from rankd.store.schema.table import user_groups

_GONE = delete(user_groups).where(user_groups.c.user.in_(values_of("users", TEXTS)))


def save_user_groups(connection: Connection, groups: Mapping[str, Groups], now: float) -> None:
    """Record the groups of these users. A user without groups has no row."""
    rows = [
        {"user": user, "groups": msgspec.json.encode(names).decode(), "changed_at": now}
        for user, names in groups.items()
        if names
    ]
    upsert(connection, user_groups, ["user"], rows)
    gone = [user for user, names in groups.items() if not names]
    if gone:
        connection.execute(_GONE, {"users": gone})
