"""The amounts that an exclusive job holds on each of its nodes.

The rows of older allocations stay without: for them, what their jobs asked for counts, as before.

Revision: 0040
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("allocation_nodes", sa.Column("resources", sa.Text()))


def downgrade() -> None:
    for view in ("job_priority", "queue_head", "job_factor", "node", "allocation", "job"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    op.drop_column("allocation_nodes", "resources")
