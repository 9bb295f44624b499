"""Inputs of adapters: the result of each adapter's last reading, and its input in force.

Revision: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "adapters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, comment="waiting, ok, failing"),
        sa.Column("row_count", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("read_at", sa.Float(), nullable=True),
        sa.Column("changed_at", sa.Float(), nullable=True),
        sa.Column("tried_at", sa.Float(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False, server_default=sa.text("0"), comment="in a row"),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False, server_default=""),
        sa.Column("content", sa.Text(), nullable=True, comment="JSON: the input in force; null: none yet"),
        sa.Column("revision", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("adapters")
