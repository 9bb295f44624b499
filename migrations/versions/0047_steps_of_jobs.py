"""Steps of jobs: the shells and commands that were started in running jobs.

Revision: 0047
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_steps",
        sa.Column("allocation_id", sa.Integer(), sa.ForeignKey("allocations.id"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float()),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("exit_status", sa.Integer()),
        sa.Column("signal", sa.Integer()),
        sa.Column("cause", sa.Text()),
        sa.Column("begun", sa.Text(), nullable=False),
        sa.Column("ended", sa.Text(), nullable=False),
        sa.Column("unstarted", sa.Text(), nullable=False),
        sa.Column("places", sa.Text(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("job_steps_open", "job_steps", ["allocation_id"], sqlite_where=sa.text("ended_at IS NULL"))
    op.create_index("job_steps_session", "job_steps", ["session", "allocation_id"])


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job_step")
    op.drop_table("job_steps")
