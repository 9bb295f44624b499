"""The usage of deleted jobs, by day, and their keys.

Revision: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "usage_days",
        sa.Column("day", sa.Text(), nullable=False, comment="of the end, UTC"),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("completed", sa.Integer(), nullable=False),
        sa.Column("core_s", sa.Float(), nullable=False),
        sa.Column("charge", sa.Float(), nullable=False, comment="billing units times seconds, not decayed"),
        sa.PrimaryKeyConstraint("day", "account", "user"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "old_keys",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("user", "key"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS usage_day")
    op.drop_table("old_keys")
    op.drop_table("usage_days")
