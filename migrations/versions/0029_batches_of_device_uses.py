"""The last uses of devices that a node has reported, so that a repeated report counts once.

Revision: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "the id of the last uses of devices that were added"
    op.add_column("nodes", sa.Column("device_batch", sa.Text(), comment=comment))


def downgrade() -> None:
    op.drop_column("nodes", "device_batch")
