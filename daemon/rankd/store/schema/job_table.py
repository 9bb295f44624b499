"""Tables of jobs, their applications and events, and the data that is kept of deleted ones.

Units are those of :mod:`rankd.store.schema.table`.
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
    Table,
    Text,
    UniqueConstraint,
    text,
)

from rankd.store.engine.listed import written
from rankd.store.schema.metadata import metadata

applications = Table(
    "applications",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("state", Text, nullable=False, server_default="new"),
    Column("state_at", Float, nullable=False, server_default=text("0")),
    Column("failed", Boolean, nullable=False, server_default=text("0"), comment="one of its jobs did not complete"),
    Column("revision", Integer, nullable=False, server_default=text("0"), comment="event of its last beginning"),
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
    Column("shape", Integer, nullable=False, comment="equal for jobs that request the same nodes and resources"),
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
    Column("cancelled_by", Text, comment="who cancelled a job that was allocated or running"),
    Column("key", Text),
    Column("comment", Text),
    Column("request", Text, nullable=False, comment="as submitted"),
    Column("groups", Text, comment="JSON list: the user's groups when it was submitted; null: none"),
    Column("held_by", Text, comment="who holds it; null: nobody, or it was held before this was recorded"),
    Column("cancelled_via", Text, comment="the gateway that vouched for cancelled_by; null: none did"),
    Column("array", Text, comment="of an array: the indices that are still pending in this record; null: none"),
    Column("array_limit", Integer, comment="of an array: how many tasks may run at once; null: any number"),
    Column("array_job", Integer, comment="of a task: its array"),
    Column("array_task", Integer, comment="of a task: its index"),
    Column("request_id", Integer, comment="of a task: its request, if it is that of the array; else null"),
    Column("settled", Integer, comment="the last event before those that only took tasks from it; null: the last one"),
    Column("retry_of", Integer, comment="the ended job or array that this one repeats; null: none"),
    Column("cancel_if_unmet", Boolean, comment="cancel it if it can never start; null: as the setting says"),
    *(
        Column(f"waited_{cause}_s", Float, nullable=False, server_default=text("0"))
        for cause in ("dependency", "held", "quota", "resources", "reserved", "starting")
    ),
    Column("waited_until", Float, comment="up to when the six parts count; null: nothing is counted yet"),
    Column("waited_s", Float, comment="their sum at its first start or its end; null: it waits, or began before this"),
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
    Index("jobs_name", "user", "name", sqlite_where=text("state IN ('pending', 'allocated', 'running')")),
    Index("jobs_arrays", "id", sqlite_where=text('"array" IS NOT NULL')),
    Index("jobs_array", "array_job", "array_task", unique=True, sqlite_where=text("array_job IS NOT NULL")),
    sqlite_autoincrement=True,
)

arrays = Table(
    "arrays",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("n_tasks", Integer, nullable=False),
    Column("first", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("n_pending", Integer, nullable=False, comment="tasks that are pending in the array's record"),
    Column("n_open", Integer, nullable=False, comment="tasks with records that have not ended"),
    Column("n_active", Integer, nullable=False, comment="those of them that are allocated or running"),
    Column("n_completed", Integer, nullable=False),
    Column("n_failed", Integer, nullable=False, comment="tasks that ended in any other way"),
    Column("n_cancelled", Integer, nullable=False),
    Column("cancelled", Text, comment="indices that were cancelled without records of their own"),
    Column("request_id", Integer, comment="the array's present request; null: no task has it yet"),
    Column("n_told", Integer, comment="the number of tasks that its tasks are told, if it repeats others; else null"),
    Column("eligible", Text, comment="pending indices whose counterparts have completed; null: not looked up yet"),
    Column("n_eligible", Integer, comment="their number; null: the array does not wait by index"),
    Column("unmet", Text, comment="pending indices whose counterparts have ended otherwise"),
    Column("n_unmet", Integer, comment="their number; null: the array does not wait by index"),
    Column("ended_at", Float, comment="the last end of one of its tasks so far; null: none has ended"),
)

job_waits = Table(
    "job_waits",
    metadata,
    Column("awaited", Integer, primary_key=True, autoincrement=False, comment="a job or an array"),
    Column("job_id", Integer, primary_key=True, autoincrement=False, comment="the job that waits or has waited for it"),
    Column("task", Integer, primary_key=True, autoincrement=False, comment="the awaited task; -1: all of it"),
    Column("type", Text, primary_key=True),
    Index("job_waits_job", "job_id"),
    sqlite_with_rowid=False,
)

array_requests = Table(
    "array_requests",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("array_job", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Index("array_requests_array", "array_job"),
)

IS_ACTIVE = jobs.c.state.in_(written("pending", "allocated", "running"))
"""Whether a job has not ended, in the words of the partial indexes. Without this condition, they are not used."""

job_scripts = Table(
    "job_scripts",
    metadata,
    Column("job_id", Integer, primary_key=True),
    Column("script", LargeBinary, nullable=False, comment="UTF-8; its length can be read without its text"),
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

old_keys = Table(
    "old_keys",
    metadata,
    Column("user", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("job_id", Integer, nullable=False),
    sqlite_with_rowid=False,
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
    Column("gpu_s", Float, nullable=False, server_default=text("0"), comment="GPUs times seconds"),
    sqlite_with_rowid=False,
)
