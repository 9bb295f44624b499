"""How a job's memory and processor time were measured on a node.

Revision: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.add_column(
        "allocation_nodes",
        sa.Column("measured", sa.Text(), nullable=True, comment="how: cgroup, cgroup_cpu, cgroup_memory, wait"),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_column("allocation_nodes", "measured")
