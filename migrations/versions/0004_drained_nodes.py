"""Drains that outlast the node's state: who drained it, when and why; and the reasons of node events.

Revision: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("drained_by", sa.Text(), nullable=True, comment="an administrator; null: in use"))
    op.add_column("nodes", sa.Column("drained_at", sa.Float(), nullable=True))
    op.add_column("nodes", sa.Column("drain_reason", sa.Text(), nullable=True))
    op.add_column("node_events", sa.Column("reason", sa.Text(), nullable=True))
    op.execute("UPDATE nodes SET drained_by = 'unknown', drained_at = heartbeat_at WHERE state = 'draining'")


def downgrade() -> None:
    op.drop_column("node_events", "reason")
    op.drop_column("nodes", "drain_reason")
    op.drop_column("nodes", "drained_at")
    op.drop_column("nodes", "drained_by")
