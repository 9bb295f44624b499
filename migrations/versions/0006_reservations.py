"""Reservations. Reasons by what jobs have in common: shape, time limit, and user and application if these matter.

Existing reasons are dropped, because the next cycle finds them again.

Revision: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("wait_reasons")
    op.create_table(
        "wait_reasons",
        sa.Column("queue_id", sa.Integer(), nullable=False, comment="0: of any queue that has no row of its own"),
        sa.Column("shape", sa.Integer(), nullable=False),
        sa.Column("time_limit_s", sa.Float(), nullable=False, comment="-1: none stated"),
        sa.Column("user", sa.Text(), nullable=False, comment="empty: any"),
        sa.Column("application_id", sa.Integer(), nullable=False, comment="-1: the job is its own; -2: any"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("fact", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "shape", "time_limit_s", "user", "application_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reservations",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("cycle", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False, comment="JSON list, in the order chosen"),
        sa.Column(
            "starts_at", sa.Float(), nullable=False, comment="at the latest, if running jobs keep to their limits"
        ),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )


def downgrade() -> None:
    op.drop_table("reservations")
    op.drop_table("wait_reasons")
    op.create_table(
        "wait_reasons",
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("shape", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("fact", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "shape"),
    )
