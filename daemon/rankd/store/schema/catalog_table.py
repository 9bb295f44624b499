"""Tables of names that configurations define: associations, queues, QoS and priority classes.

Units are those of :mod:`rankd.store.schema.table`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint, text

from rankd.store.schema.metadata import metadata

associations = Table(
    "associations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", Text, nullable=False),
    Column("user", Text, nullable=False, server_default="", comment="empty: the account itself"),
    Column("parent", Text, comment="accounts only: the account above"),
    Column("shares", Float, nullable=False),
    Column("shares_parent", Boolean, nullable=False, server_default=text("0")),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("is_default", Boolean, nullable=False, server_default=text("0")),
    Column("configured", Boolean, nullable=False, comment="false: made on first use"),
    Column("usage", Float, nullable=False, server_default=text("0")),
    Column("usage_at", Float, nullable=False, server_default=text("0")),
    UniqueConstraint("account", "user"),
    Index("associations_user", "user"),
)

queues = Table(
    "queues",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partition", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("configured", Boolean, nullable=False),
    Column("is_leaf", Boolean, nullable=False),
    Column("policy", Text, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("sort_priority", Boolean, nullable=False),
    Column("sort_policy", Text, nullable=False),
    Column("factor", Float),
    Column("guaranteed", Text, nullable=False),
    Column("max", Text, nullable=False),
    Column("maxapplications", Integer, nullable=False, server_default=text("0"), comment="0: not limited"),
    Column("dynamic", Boolean, nullable=False, server_default=text("0"), comment="made on first use"),
    UniqueConstraint("partition", "path"),
)

queue_events = Table(
    "queue_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partition", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("event", Text, nullable=False, comment="made, changed, removed"),
    Column("at", Float, nullable=False),
    Column("actor", Text, nullable=False),
    sqlite_autoincrement=True,
)

qos = Table(
    "qos",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("priority", Integer, nullable=False),
    Column("factor", Float),
    Column("usage_factor", Float, nullable=False),
)

priority_classes = Table(
    "priority_classes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Integer, nullable=False),
    Column("global_default", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("preemption_policy", Text, nullable=False),
    Column("access", Text, comment="JSON: users and groups who may use it; null: no list of its own"),
)
