"""The table of steps: shells and commands that were started in running jobs.

Units are those of :mod:`rankd.store.schema.table`.

Of the indexes with all rows, only the key begins with the allocation. PostgreSQL would take another one for a number,
too, if most allocations have few steps, and read all steps of the one that has thousands.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, Table, Text, text

from rankd.store.schema.metadata import metadata

job_steps = Table(
    "job_steps",
    metadata,
    Column("allocation_id", ForeignKey("allocations.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="from 0 in each allocation"),
    Column("session", Text, nullable=False, comment="of its first task; a repeated request has the same"),
    Column("command", Text, nullable=False, comment="as a shell would read it; the beginning of a long one"),
    Column("started_by", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("tasks", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("exit_status", Integer, comment="this and the next two: of the worst task that ran and has ended"),
    Column("signal", Integer),
    Column("cause", Text, comment="not_started, with a status; lost, job_ended"),
    Column("begun", Text, nullable=False, comment="hexadecimal: a bit for each task that was granted"),
    Column("ended", Text, nullable=False, comment="the same, of tasks that have ended"),
    Column("unstarted", Text, nullable=False, comment="the same, of those that have ended, and never ran"),
    Column("places", Text, nullable=False, comment="the same, of the job's nodes that have a task"),
    Index("job_steps_open", "allocation_id", sqlite_where=text("ended_at IS NULL")),
    Index("job_steps_session", "session", "allocation_id"),
    sqlite_with_rowid=False,
)
