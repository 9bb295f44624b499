"""Tables of nodes, their allocations, and the reasons why jobs wait.

Units are those of :mod:`rankd.store.schema.table`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, Table, Text, text

from rankd.store.schema.metadata import metadata

nodes = Table(
    "nodes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("partition", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("capacity", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("registered_at", Float, nullable=False),
    Column("heartbeat_at", Float, nullable=False),
    Column("drained_by", Text, comment="an administrator; null: not drained"),
    Column("drained_at", Float),
    Column("drain_reason", Text),
    Column("instance", Text, comment="of the agent's state directory; null: unknown"),
    Column("devices", Text, nullable=False, server_default="[]", comment="JSON list, with their present states"),
    Column("confinement", Text, nullable=False, server_default=""),
    Column("device_batch", Text, comment="the id of the last uses of devices that were added"),
)

node_events = Table(
    "node_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text),
    sqlite_autoincrement=True,
)

allocations = Table(
    "allocations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("cycle", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("nodes", Text, nullable=False, comment="JSON list, in the order chosen"),
    Column("resources", Text, nullable=False, comment="per node"),
    Column("charge_rate", Float, nullable=False, comment="billing units per second"),
    Column("allocated_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("charged", Boolean, nullable=False, server_default=text("0"), comment="in the association's usage"),
    Column("cancel", Text, comment="why it has to end: cancel, gang"),
    Column("devices", Text, comment="JSON object: the ids by node; null: none"),
    Index("allocations_job", "job_id"),
    Index("allocations_open", "id", sqlite_where=text("ended_at IS NULL")),
    Index("allocations_to_end", "id", sqlite_where=text("cancel IS NOT NULL AND ended_at IS NULL")),
    Index("allocations_uncharged", "id", sqlite_where=text("charged = 0")),
    sqlite_autoincrement=True,
)

allocation_nodes = Table(
    "allocation_nodes",
    metadata,
    Column("allocation_id", ForeignKey("allocations.id"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("exit_status", Integer),
    Column("signal", Integer),
    Column("cause", Text),
    Column("message", Text),
    Column("stdout", Text),
    Column("stderr", Text),
    Column("max_rss_bytes", Integer),
    Column("cpu_s", Float),
    Column("measured", Text, comment="how: cgroup, cgroup_cpu, cgroup_memory, wait"),
    Column("taken_at", Float, comment="when it was sent to the node's agent"),
    Column("resources", Text, comment="what an exclusive job holds here; null: those of the allocation"),
    Index(
        "allocation_nodes_untaken",
        "node",
        "allocation_id",
        sqlite_where=text("taken_at IS NULL AND ended_at IS NULL"),
    ),
)

allocation_orders = Table(
    "allocation_orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("allocation_id", ForeignKey("allocations.id"), nullable=False),
    Column("node", Text, nullable=False),
    Column("signal", Integer, comment="to send to the job's processes; null: the time limit changes"),
    Column("time_limit_s", Float, comment="from the job's start; null: none"),
    Index("allocation_orders_allocation", "allocation_id"),
    Index("allocation_orders_node", "node", "id"),
    sqlite_autoincrement=True,
)

allocation_devices = Table(
    "allocation_devices",
    metadata,
    Column("allocation_id", ForeignKey("allocations.id"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("device", Text, primary_key=True, comment="its id"),
    Column("model", Text, nullable=False),
    Column("position", Integer, nullable=False, comment="its index when it was allocated"),
    Column("held", Boolean, nullable=False, comment="the allocation is open"),
    Column(
        "card", Text, comment="JSON: its files, and the ids of devices that shared its index or a file; null: neither"
    ),
    Index("allocation_devices_held", "node", "device", unique=True, sqlite_where=text("held = 1")),
)

wait_reasons = Table(
    "wait_reasons",
    metadata,
    Column("queue_id", Integer, primary_key=True, comment="0: any queue without its own row"),
    Column("shape", Integer, primary_key=True),
    Column("time_limit_s", Float, primary_key=True, comment="-1: none given"),
    Column("user", Text, primary_key=True, comment="empty: any"),
    Column("application_id", Integer, primary_key=True, comment="-1: a job without an application; -2: any"),
    Column("reason", Text, nullable=False),
    Column("fact", Text, nullable=False),
    sqlite_with_rowid=False,
)

reason_spells = Table(
    "reason_spells",
    metadata,
    Column("queue_id", Integer, primary_key=True, comment="these five as in wait_reasons"),
    Column("shape", Integer, primary_key=True),
    Column("time_limit_s", Float, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("application_id", Integer, primary_key=True),
    Column("since", Float, primary_key=True, comment="since when jobs of this kind wait for the cause"),
    Column("cause", Text, nullable=False, comment="quota, resources, reserved; empty: the cycles see no such job"),
    Index("reason_spells_shape", "shape"),
    Index("reason_spells_gone", "since", sqlite_where=text("cause = ''")),
    sqlite_with_rowid=False,
)

reservations = Table(
    "reservations",
    metadata,
    Column("job_id", Integer, primary_key=True),
    Column("cycle", Integer, nullable=False),
    Column("nodes", Text, nullable=False, comment="JSON list, in the order chosen"),
    Column("starts_at", Float, nullable=False, comment="at the latest, if running jobs keep to their limits"),
    Column("made_at", Float, nullable=False),
)
