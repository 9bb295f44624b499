"""Tables of what agents report about devices, and of what administrators say about them.

Units are those of :mod:`rankd.store.schema.table`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, Table, Text

from rankd.store.schema.metadata import metadata

device_notes = Table(
    "device_notes",
    metadata,
    Column("node", Text, primary_key=True),
    Column("device", Text, primary_key=True, comment="its id"),
    Column("state", Text, nullable=False, comment="ok, taken, failed: as the agent sees it"),
    Column("taken_by", Text, comment="pid and user"),
    Column("reason", Text),
    Column("fault", Text, comment="an error; the device is failed until an administrator resumes it"),
    Column("at", Float, nullable=False),
)

device_orders = Table(
    "device_orders",
    metadata,
    Column("node", Text, primary_key=True),
    Column("device", Text, primary_key=True, comment="its id"),
    Column("drained_by", Text, comment="an administrator; null: not drained"),
    Column("drained_at", Float),
    Column("reason", Text),
    Column("resumed", Boolean, nullable=False, comment="it is offered, although its node's list says failed"),
)

device_uses = Table(
    "device_uses",
    metadata,
    Column("allocation_id", ForeignKey("allocations.id"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("device", Text, primary_key=True, comment="its id"),
    Column("recent", Float, comment="mean utilisation of the last 10 minutes, 0 to 1; null: can't be read"),
    Column("busy", Float, nullable=False, comment="the sum of all samples"),
    Column("samples", Integer, nullable=False),
    Column("peak_bytes", Integer, nullable=False),
    Column("idle_s", Float, comment="for how long it has been idle; null: not known"),
    Column("at", Float, nullable=False),
)
