"""Forecasts: the present range of each job's start, and the estimates that were shown.

Revision: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "forecasts",
        sa.Column("id", sa.Integer(), primary_key=True, comment="1: the newest one is the only one"),
        sa.Column("made_at", sa.Float(), nullable=False, comment="the instant from which it looks ahead"),
        sa.Column("generation", sa.Integer(), nullable=False, comment="the ranking that it used"),
        sa.Column("jobs", sa.Integer(), nullable=False, comment="how many jobs have rows in start_ranges"),
        sa.Column("beyond", sa.Integer(), nullable=False, comment="how many pending jobs have none"),
        sa.Column("took_s", sa.Float(), nullable=False, comment="from the reading to the end of the writing"),
        sa.Column("cpu_s", sa.Float(), nullable=False, comment="processor time"),
    )
    op.create_table(
        "start_ranges",
        sa.Column("job_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("early", sa.Float(), comment="null: no start can be told"),
        sa.Column("late", sa.Float(), comment="null: no latest start can be told"),
        sa.Column("reason", sa.Text(), comment="why early or late can't be told"),
        sa.Column("fact", sa.Text(), nullable=False, comment="the same in words; empty: nothing to add"),
    )
    op.create_table(
        "start_estimates",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False, comment="of the job"),
        sa.Column("made_at", sa.Float(), nullable=False, comment="of the forecast"),
        sa.Column("shown_at", sa.Float(), nullable=False, comment="when it was first shown"),
        sa.Column("early", sa.Float(), nullable=False),
        sa.Column("late", sa.Float(), comment="null: no latest start could be told"),
        sa.Column(
            "started_at", sa.Float(), comment="of an array, of its first task after that; null: it has not started"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("start_estimates_job", "start_estimates", ["job_id", "made_at"], unique=True)
    op.create_index("start_estimates_user", "start_estimates", ["user", "shown_at"])
    op.create_index("start_estimates_open", "start_estimates", ["job_id"], sqlite_where=sa.text("started_at IS NULL"))
    op.create_index(
        "start_estimates_started", "start_estimates", ["started_at"], sqlite_where=sa.text("started_at IS NOT NULL")
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS start_estimate")
    op.execute("DROP VIEW IF EXISTS start_range")
    op.drop_table("start_estimates")
    op.drop_table("start_ranges")
    op.drop_table("forecasts")
