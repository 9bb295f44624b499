"""The cards that jobs hold, and what administrators say about single devices.

Revision: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "JSON: its files, and the ids of devices that shared its index or a file; null: neither"
    op.add_column("allocation_devices", sa.Column("card", sa.Text(), comment=comment))
    op.create_table(
        "device_orders",
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("device", sa.Text(), primary_key=True, comment="its id"),
        sa.Column("drained_by", sa.Text(), comment="an administrator; null: not drained"),
        sa.Column("drained_at", sa.Float()),
        sa.Column("reason", sa.Text()),
        sa.Column(
            "resumed", sa.Boolean(), nullable=False, comment="it is offered, although its node's list says failed"
        ),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS device")
    op.drop_table("device_orders")
    op.drop_column("allocation_devices", "card")
