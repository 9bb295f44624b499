"""Configurations that came into force, and which one was in force for a generation.

Revision: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "configurations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False, comment="started, reloaded"),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, comment="of files"),
        sa.Column("files", sa.Text(), nullable=False, comment="JSON: texts by name"),
        sa.Column("changes", sa.Text(), nullable=False, comment="JSON list: against the one before"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.add_column("generations", sa.Column("configuration", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS generation")
    with op.batch_alter_table("generations") as table:
        table.drop_column("configuration")
    op.drop_table("configurations")
