"""Stores submissions that could not be accepted.

Revision: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False, comment="which message, and which of its jobs"),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True, comment="the sender's, if it gave one"),
        sa.Column(
            "payload", sa.LargeBinary(), nullable=False, comment="a job, or the whole message if it can't be read"
        ),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False, comment="waiting, retried, dropped"),
        sa.Column("jobs", sa.Text(), nullable=True, comment="JSON list: what a retry made of it"),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.Float(), nullable=True),
        sa.Column("published", sa.Boolean(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source"),
        sqlite_autoincrement=True,
    )
    op.create_index("dead_letters_user", "dead_letters", ["user"], unique=False)
    op.create_index(
        "dead_letters_unpublished", "dead_letters", ["id"], unique=False, sqlite_where=sa.text("published = 0")
    )


def downgrade() -> None:
    op.drop_table("dead_letters")
