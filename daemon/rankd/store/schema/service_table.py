"""The services' own tables: roles, the relay's marks, configurations, and the inputs of adapters.

Units are those of :mod:`rankd.store.schema.table`.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, Table, Text, text

from rankd.store.schema.metadata import metadata

roles = Table(
    "roles",
    metadata,
    Column("name", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("alive_at", Float, comment="its holder's last sign of life, or renewal of its lease"),
    Column("ttl_s", Float, comment="how long a lease lasts after its renewal; NULL: a file lock holds the role"),
    Column("resigned_at", Float, comment="when its holder gave it back; NULL while it is held"),
    Column("vacant_at", Float, comment="the last sign of life of the holder before, or when that one resigned"),
    Column("ready_at", Float, comment="when its holder had done its first work"),
)

relay_marks = Table(
    "relay_marks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("event_id", Integer, nullable=False),
)

configurations = Table(
    "configurations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False, comment="started, reloaded"),
    Column("directory", Text, nullable=False),
    Column("digest", Text, nullable=False, comment="of files"),
    Column("files", Text, nullable=False, comment="JSON: texts by name"),
    Column("changes", Text, nullable=False, comment="JSON list: differences from the one before"),
    sqlite_autoincrement=True,
)

versions = Table(
    "versions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", Integer, nullable=False, comment="raised with each change of what the name stands for"),
)

user_groups = Table(
    "user_groups",
    metadata,
    Column("user", Text, primary_key=True),
    Column("groups", Text, nullable=False, comment="JSON list: groups in the head's user database"),
    Column("changed_at", Float, nullable=False, comment="when the intake saw this change"),
)

adapters = Table(
    "adapters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("input", Text, nullable=False),
    Column("plugin", Text, nullable=False),
    Column("state", Text, nullable=False, comment="waiting, ok, failing"),
    Column("row_count", Integer, nullable=False, server_default=text("0"), comment="of the input in force"),
    Column("read_at", Float, comment="when its source last provided the input in force"),
    Column("changed_at", Float),
    Column("tried_at", Float),
    Column("failures", Integer, nullable=False, server_default=text("0"), comment="in a row"),
    Column("message", Text, comment="of the last failure, while it fails"),
    Column("digest", Text, nullable=False, server_default="", comment="of content"),
    Column("content", Text, comment="JSON: the input in force; null: none yet"),
    Column("revision", Integer, nullable=False, server_default=text("0"), comment="how often it changed"),
)
