"""Tables of notifications: what each job wants, and what is on its way to receivers.

Units are those of :mod:`rankd.store.schema.table`. Targets may hold secrets, as the addresses of webhooks do. So they
are in no other table: not in a job's request, which nodes and views get.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint, text

from rankd.store.schema.metadata import metadata

job_notifications = Table(
    "job_notifications",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False, comment="of a task: its array"),
    Column("wanted", Integer, nullable=False, comment="the events, as core.model.notification.Wanted"),
    Column("notify", Text, nullable=False, comment="the field as submitted"),
    Column("has_begun", Boolean, nullable=False, server_default=text("0"), comment="the start of an array was noted"),
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("event_id", Integer, nullable=False),
    Column("place", Integer, nullable=False, comment="of the target in the job's list"),
    Column("job_id", Integer, nullable=False),
    Column("user", Text, nullable=False),
    Column("lane", Text, nullable=False, comment="what shares a receiver, which may be slow"),
    Column("target", Text, nullable=False, comment="empty once it is done"),
    Column("body", Text, nullable=False, comment="what is sent; empty once it is done"),
    Column("state", Text, nullable=False, comment="waiting, done"),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("first_at", Float, nullable=False, comment="since when it is tried"),
    Column("next_at", Float, nullable=False, comment="when it is sent, or sent again"),
    Column("slot_at", Float, nullable=False, comment="its turn among those of its user"),
    Column("problem", Text, comment="why the last attempt failed"),
    UniqueConstraint("event_id", "place"),
    Index("notifications_waiting", "lane", "next_at", sqlite_where=text("state = 'waiting'")),
    Index("notifications_done", "slot_at", sqlite_where=text("state = 'done'")),
    Index("notifications_job", "job_id", sqlite_where=text("state = 'waiting'")),
    Index("notifications_user", "user", "slot_at"),
    sqlite_autoincrement=True,
)
