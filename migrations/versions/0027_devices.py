"""Devices: those of nodes, and which open allocation holds which one.

Revision: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "nodes",
        sa.Column("devices", sa.Text(), nullable=False, server_default="[]", comment="JSON list, as registered"),
    )
    op.add_column(
        "allocations",
        sa.Column("devices", sa.Text(), nullable=True, comment="JSON object: the ids by node; null: none"),
    )
    op.create_table(
        "allocation_devices",
        sa.Column("allocation_id", sa.Integer(), sa.ForeignKey("allocations.id"), primary_key=True),
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("device", sa.Text(), primary_key=True, comment="its id"),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="its index when it was allocated"),
        sa.Column("held", sa.Boolean(), nullable=False, comment="the allocation is open"),
    )
    op.create_index(
        "allocation_devices_held",
        "allocation_devices",
        ["node", "device"],
        unique=True,
        sqlite_where=sa.text("held = 1"),
    )


def downgrade() -> None:
    for view in ("device", "job_device", "allocation"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    op.drop_table("allocation_devices")
    op.drop_column("allocations", "devices")
    op.drop_column("nodes", "devices")
