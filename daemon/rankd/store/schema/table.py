"""Tables, as SQLAlchemy Core knows them. Alembic's revisions in migrations/ make them; a test compares both.

Times are UTC seconds (float). Amounts are internal: vcore in thousandths, memory in bytes. JSON is text.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

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
)

applications = Table(
    "applications",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("state", Text, nullable=False, server_default="new"),
    Column("state_at", Float, nullable=False, server_default=text("0")),
    Column("failed", Boolean, nullable=False, server_default=text("0"), comment="a job of it did not complete"),
    Column("revision", Integer, nullable=False, server_default=text("0"), comment="of its (new) beginning"),
    UniqueConstraint("queue_id", "name"),
    Index("applications_revision", "revision"),
    Index("applications_passing", "state_at", sqlite_where=text("state IN ('starting', 'completing')")),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("revision", Integer, nullable=False, comment="id of the job's last event"),
    Column("user", Text, nullable=False),
    Column("association_id", ForeignKey("associations.id"), nullable=False),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("qos_id", ForeignKey("qos.id"), nullable=False),
    Column("application_id", ForeignKey("applications.id")),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("blocked_by", Text, comment="dependency or begin time: why a job that is not held is not eligible"),
    Column("class_value", Integer, nullable=False),
    Column("priority_class", Text),
    Column("preemption_policy", Text, nullable=False),
    Column("urgency", Integer, nullable=False),
    Column("fixed_priority", Integer),
    Column("fixed_by", Text),
    Column("nodes", Integer, nullable=False),
    Column("min_nodes", Integer, nullable=False),
    Column("vcore", Integer, nullable=False),
    Column("resources", Text, nullable=False),
    Column("constraints", Text),
    Column("exclusive", Boolean, nullable=False),
    Column("shape", Integer, nullable=False, comment="equal for jobs that ask for the same of the same nodes"),
    Column("time_limit_s", Float),
    Column("begin_at", Float),
    Column("depends_on", Text),
    Column("requeue", Boolean, nullable=False),
    Column("requeues", Integer, nullable=False, server_default=text("0")),
    Column("submitted_at", Float, nullable=False),
    Column("eligible_at", Float),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("exit_status", Integer),
    Column("signal", Integer),
    Column("allocation_id", Integer),
    Column("nodelist", Text),
    Column("cancelled_by", Text, comment="who asked for the end of a job that was allocated or running"),
    Column("key", Text),
    Column("comment", Text),
    Column("request", Text, nullable=False, comment="as submitted"),
    Column("groups", Text, comment="JSON list: the user's groups when it was submitted; null: none"),
    Index("jobs_revision", "revision"),
    Index("jobs_key", "user", "key", unique=True, sqlite_where=text("key IS NOT NULL")),
    Index("jobs_user", "user", "state"),
    Index("jobs_state", "state", sqlite_where=text("state IN ('pending', 'allocated', 'running')")),
    Index(
        "jobs_application",
        "application_id",
        "state",
        sqlite_where=text("application_id IS NOT NULL AND state IN ('pending', 'allocated', 'running')"),
    ),
    sqlite_autoincrement=True,
)

job_events = Table(
    "job_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("actor", Text, nullable=False),
    Column("cause", Text),
    Column("detail", Text),
    Index("job_events_job", "job_id"),
    sqlite_autoincrement=True,
)

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
    Column("drained_by", Text, comment="an administrator; null: in use"),
    Column("drained_at", Float),
    Column("drain_reason", Text),
    Column("instance", Text, comment="of the agent's state directory; null: not known"),
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
    Column("cancel", Text, comment="why it is to end: cancel, gang"),
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
    Column("taken_at", Float, comment="when it was given to the node's agent"),
    Index(
        "allocation_nodes_untaken",
        "node",
        "allocation_id",
        sqlite_where=text("taken_at IS NULL AND ended_at IS NULL"),
    ),
)

wait_reasons = Table(
    "wait_reasons",
    metadata,
    Column("queue_id", Integer, primary_key=True, comment="0: of any queue that has no row of its own"),
    Column("shape", Integer, primary_key=True),
    Column("time_limit_s", Float, primary_key=True, comment="-1: none stated"),
    Column("user", Text, primary_key=True, comment="empty: any"),
    Column("application_id", Integer, primary_key=True, comment="-1: the job is its own; -2: any"),
    Column("reason", Text, nullable=False),
    Column("fact", Text, nullable=False),
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

adapters = Table(
    "adapters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("input", Text, nullable=False),
    Column("plugin", Text, nullable=False),
    Column("state", Text, nullable=False, comment="waiting, ok, failing"),
    Column("row_count", Integer, nullable=False, server_default=text("0"), comment="of the input in force"),
    Column("read_at", Float, comment="when its source was last seen to give what is in force"),
    Column("changed_at", Float),
    Column("tried_at", Float),
    Column("failures", Integer, nullable=False, server_default=text("0"), comment="in a row"),
    Column("message", Text, comment="of the last failure, while it fails"),
    Column("digest", Text, nullable=False, server_default="", comment="of content"),
    Column("content", Text, comment="JSON: the input in force; null: none yet"),
    Column("revision", Integer, nullable=False, server_default=text("0"), comment="how often it changed"),
)

roles = Table(
    "roles",
    metadata,
    Column("name", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("alive_at", Float, comment="its holder's last sign of life"),
)

relay_marks = Table(
    "relay_marks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("event_id", Integer, nullable=False),
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
    Column("changes", Text, nullable=False, comment="JSON list: against the one before"),
    sqlite_autoincrement=True,
)

usage_days = Table(
    "usage_days",
    metadata,
    Column("day", Text, primary_key=True, comment="of the end, UTC"),
    Column("account", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("jobs", Integer, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("core_s", Float, nullable=False),
    Column("charge", Float, nullable=False, comment="billing units times seconds, not decayed"),
    sqlite_with_rowid=False,
)

old_keys = Table(
    "old_keys",
    metadata,
    Column("user", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("job_id", Integer, nullable=False),
    sqlite_with_rowid=False,
)

unreadable_messages = Table(
    "unreadable_messages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("stream", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("bytes", Integer, nullable=False, comment="of the whole message"),
    Column("first_bytes", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    UniqueConstraint("stream", "sequence"),
    sqlite_autoincrement=True,
)

dead_letter_losses = Table(
    "dead_letter_losses",
    metadata,
    Column("user", Text, primary_key=True),
    Column("letters", Integer, nullable=False, comment="deleted, since the user had too many"),
    Column("bytes", Integer, nullable=False),
    Column("at", Float, nullable=False, comment="of the last one"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source", Text, nullable=False, unique=True, comment="which message, and which of its jobs"),
    Column("user", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("message_id", Text, comment="the sender's, if it gave one"),
    Column("payload", LargeBinary, nullable=False, comment="a job, or the whole message if it can't be read"),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("field", Text),
    Column("state", Text, nullable=False, server_default="waiting", comment="waiting, retried, dropped"),
    Column("jobs", Text, comment="JSON list: what a retry made of it"),
    Column("decided_by", Text),
    Column("decided_at", Float),
    Column("published", Boolean, nullable=False, server_default=text("0")),
    Column("bytes", Integer, nullable=False, server_default=text("0"), comment="of the submission as it came"),
    Column("preview", Text, nullable=False, server_default="", comment="its beginning, as text"),
    Index("dead_letters_user", "user"),
    Index("dead_letters_waiting", "user", "id", "bytes", sqlite_where=text("state = 'waiting'")),
    Index("dead_letters_unpublished", "id", sqlite_where=text("published = 0")),
    sqlite_autoincrement=True,
)
