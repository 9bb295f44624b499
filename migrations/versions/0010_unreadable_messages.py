"""The first bytes of messages that could not be decoded.

Revision: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unreadable_messages",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False, comment="of the whole message"),
        sa.Column("first_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stream", "sequence"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS unreadable_message")
    op.drop_table("unreadable_messages")
