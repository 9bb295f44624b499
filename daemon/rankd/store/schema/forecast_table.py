"""Tables of forecasts: the present range of each job, and the estimates that somebody was shown.

Units are those of :mod:`rankd.store.schema.table`. None of these rows is an event of a job.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, Table, Text, text

from rankd.store.schema.metadata import metadata

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", Integer, primary_key=True, comment="1: the newest one is the only one"),
    Column("made_at", Float, nullable=False, comment="the instant from which it looks ahead"),
    Column("generation", Integer, nullable=False, comment="the ranking that it used"),
    Column("jobs", Integer, nullable=False, comment="how many jobs have rows in start_ranges"),
    Column("beyond", Integer, nullable=False, comment="how many pending jobs have none"),
    Column("took_s", Float, nullable=False, comment="from the reading to the end of the writing"),
    Column("cpu_s", Float, nullable=False, comment="processor time"),
)

start_ranges = Table(
    "start_ranges",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("early", Float, comment="null: no start can be told"),
    Column("late", Float, comment="null: no latest start can be told"),
    Column("reason", Text, comment="why early or late can't be told"),
    Column("fact", Text, nullable=False, comment="the same in words; empty: nothing to add"),
)

start_estimates = Table(
    "start_estimates",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", Integer, nullable=False),
    Column("user", Text, nullable=False, comment="of the job"),
    Column("made_at", Float, nullable=False, comment="of the forecast"),
    Column("shown_at", Float, nullable=False, comment="when it was first shown"),
    Column("early", Float, nullable=False),
    Column("late", Float, comment="null: no latest start could be told"),
    Column("started_at", Float, comment="of an array, of its first task after that; null: it has not started"),
    Index("start_estimates_job", "job_id", "made_at", unique=True),
    Index("start_estimates_user", "user", "shown_at"),
    Index("start_estimates_open", "job_id", sqlite_where=text("started_at IS NULL")),
    Index("start_estimates_started", "started_at", sqlite_where=text("started_at IS NOT NULL")),
    sqlite_autoincrement=True,
)
