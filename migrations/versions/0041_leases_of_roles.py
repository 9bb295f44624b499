"""Leases of roles, and how long the last take-over of a role took.

Revision: 0041
Revises: 0040
"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

COLUMNS = ("ttl_s", "resigned_at", "vacant_at", "ready_at")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("roles", sa.Column(name, sa.Float()))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS service")
    for name in reversed(COLUMNS):
        op.drop_column("roles", name)
