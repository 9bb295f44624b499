"""The last sign of life of each role's holder.

Revision: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("roles", sa.Column("alive_at", sa.Float(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS service")
    with op.batch_alter_table("roles") as table:
        table.drop_column("alive_at")
