"""Arrays of jobs as one record, their tasks, and the requests that tasks share.

Revision: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("array", sa.Text(), "of an array: the indices that are still pending in this record; null: none"),
    ("array_limit", sa.Integer(), "of an array: how many tasks may run at once; null: any number"),
    ("array_job", sa.Integer(), "of a task: its array"),
    ("array_task", sa.Integer(), "of a task: its index"),
    ("request_id", sa.Integer(), "of a task: its request, if it is that of the array; else null"),
    ("settled", sa.Integer(), "the last event before those that only took tasks from it; null: the last one"),
)
_COUNTED = (
    "n_tasks",
    "first",
    "last",
    "step",
    "n_pending",
    "n_open",
    "n_active",
    "n_completed",
    "n_failed",
    "n_cancelled",
)


def upgrade() -> None:
    for name, kind, comment in _COLUMNS:
        op.add_column("jobs", sa.Column(name, kind, nullable=True, comment=comment))
    op.create_index(
        "jobs_array", "jobs", ["array_job", "array_task"], unique=True, sqlite_where=sa.text("array_job IS NOT NULL")
    )
    op.create_index("jobs_arrays", "jobs", ["id"], sqlite_where=sa.text('"array" IS NOT NULL'))
    op.create_table(
        "arrays",
        sa.Column("job_id", sa.Integer(), nullable=False, autoincrement=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _COUNTED),
        sa.Column("cancelled", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_table(
        "array_requests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("array_job", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("array_requests_array", "array_requests", ["array_job"])


def downgrade() -> None:
    op.drop_table("array_requests")
    op.drop_table("arrays")
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_index("jobs_array", "jobs")
    op.drop_index("jobs_arrays", "jobs")
    for name, _, _ in reversed(_COLUMNS):
        op.drop_column("jobs", name)
