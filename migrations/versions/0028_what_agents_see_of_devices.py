"""What agents see of devices: states, errors, and what jobs do with them.

Revision: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("confinement", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "device_notes",
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("device", sa.Text(), primary_key=True, comment="its id"),
        sa.Column("state", sa.Text(), nullable=False, comment="ok, taken, failed: as the agent sees it"),
        sa.Column("taken_by", sa.Text(), comment="pid and user"),
        sa.Column("reason", sa.Text()),
        sa.Column("fault", sa.Text(), comment="an error; the device is failed until an administrator resumes it"),
        sa.Column("at", sa.Float(), nullable=False),
    )
    op.create_table(
        "device_uses",
        sa.Column("allocation_id", sa.Integer(), sa.ForeignKey("allocations.id"), primary_key=True),
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("device", sa.Text(), primary_key=True, comment="its id"),
        sa.Column("recent", sa.Float(), comment="mean utilisation of the last 10 minutes, 0 to 1; null: can't be read"),
        sa.Column("busy", sa.Float(), nullable=False, comment="the sum of all samples"),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("peak_bytes", sa.Integer(), nullable=False),
        sa.Column("idle_s", sa.Float(), comment="for how long it has been idle; null: not known"),
        sa.Column("at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    for view in ("device", "job_device", "node"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    op.drop_table("device_uses")
    op.drop_table("device_notes")
    op.drop_column("nodes", "confinement")
