"""Nodes request their allocations: stores when each was taken, instead of whether it was published.

Published allocations count as taken. One that its agent does not know, and that never started, is sent to it again.

Revision: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "allocation_nodes",
        sa.Column("taken_at", sa.Float(), nullable=True, comment="when it was given to the node's agent"),
    )
    op.execute(
        "UPDATE allocation_nodes SET taken_at = (SELECT allocated_at FROM allocations WHERE id = allocation_id)"
        " WHERE ended_at IS NULL AND allocation_id IN (SELECT id FROM allocations WHERE published = 1)"
    )
    op.create_index(
        "allocation_nodes_untaken",
        "allocation_nodes",
        ["node", "allocation_id"],
        sqlite_where=sa.text("taken_at IS NULL AND ended_at IS NULL"),
    )
    op.create_index(
        "allocations_to_end", "allocations", ["id"], sqlite_where=sa.text("cancel IS NOT NULL AND ended_at IS NULL")
    )
    op.drop_column("allocations", "published")
    op.drop_column("allocations", "cancel_published")


def downgrade() -> None:
    op.add_column(
        "allocations", sa.Column("cancel_published", sa.Boolean(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("allocations", sa.Column("published", sa.Boolean(), server_default=sa.text("0"), nullable=False))
    op.execute(
        "UPDATE allocations SET published = 1 WHERE id NOT IN"
        " (SELECT allocation_id FROM allocation_nodes WHERE taken_at IS NULL AND ended_at IS NULL)"
    )
    op.drop_index("allocations_to_end", "allocations")
    op.drop_index("allocation_nodes_untaken", "allocation_nodes")
    op.drop_column("allocation_nodes", "taken_at")
