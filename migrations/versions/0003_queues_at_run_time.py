"""Queues made on first use, users' groups, the states of applications.

Revision: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OF_JOBS = "UPDATE applications SET state = '{}' WHERE id IN (SELECT application_id FROM jobs WHERE state IN ({}))"
_STATES = (
    "UPDATE applications SET state = 'completed', state_at = created_at",
    _OF_JOBS.format("accepted", "'pending'"),
    _OF_JOBS.format("running", "'allocated', 'running'"),
)


def upgrade() -> None:
    op.add_column(
        "queues",
        sa.Column(
            "maxapplications", sa.Integer(), server_default=sa.text("0"), nullable=False, comment="0: not limited"
        ),
    )
    op.add_column(
        "queues",
        sa.Column("dynamic", sa.Boolean(), server_default=sa.text("0"), nullable=False, comment="made on first use"),
    )
    op.add_column(
        "jobs",
        sa.Column(
            "groups", sa.Text(), nullable=True, comment="JSON list: the user's groups when it was submitted; null: none"
        ),
    )
    op.create_index(
        "jobs_application",
        "jobs",
        ["application_id", "state"],
        unique=False,
        sqlite_where=sa.text("application_id IS NOT NULL AND state IN ('pending', 'allocated', 'running')"),
    )
    op.add_column("applications", sa.Column("state", sa.Text(), server_default="new", nullable=False))
    op.add_column("applications", sa.Column("state_at", sa.Float(), server_default=sa.text("0"), nullable=False))
    op.add_column(
        "applications",
        sa.Column(
            "failed", sa.Boolean(), server_default=sa.text("0"), nullable=False, comment="a job of it did not complete"
        ),
    )
    op.add_column(
        "applications",
        sa.Column(
            "revision", sa.Integer(), server_default=sa.text("0"), nullable=False, comment="of its (new) beginning"
        ),
    )
    op.create_index("applications_revision", "applications", ["revision"], unique=False)
    op.create_index(
        "applications_passing",
        "applications",
        ["state_at"],
        unique=False,
        sqlite_where=sa.text("state IN ('starting', 'completing')"),
    )
    op.create_table(
        "generation_waiting_applications",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("application_id", sa.Integer(), nullable=False, comment="its leaf lets others in first (stateaware)"),
        sa.PrimaryKeyConstraint("generation", "application_id"),
        sqlite_with_rowid=False,
    )
    for statement in _STATES:
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("generation_waiting_applications")
    op.drop_index("applications_passing", table_name="applications")
    op.drop_index("applications_revision", table_name="applications")
    op.drop_column("applications", "revision")
    op.drop_column("applications", "failed")
    op.drop_column("applications", "state_at")
    op.drop_column("applications", "state")
    op.drop_index("jobs_application", table_name="jobs")
    op.drop_column("jobs", "groups")
    op.drop_column("queues", "dynamic")
    op.drop_column("queues", "maxapplications")
