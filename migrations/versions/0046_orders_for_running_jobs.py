"""Orders for running jobs that their nodes have not carried out yet: signals and changed time limits.

Revision: 0046
Revises: 0045
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "allocation_orders",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("allocation_id", sa.Integer(), sa.ForeignKey("allocations.id"), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("signal", sa.Integer()),
        sa.Column("time_limit_s", sa.Float()),
        sqlite_autoincrement=True,
    )
    op.create_index("allocation_orders_allocation", "allocation_orders", ["allocation_id"])
    op.create_index("allocation_orders_node", "allocation_orders", ["node", "id"])


def downgrade() -> None:
    op.drop_table("allocation_orders")
