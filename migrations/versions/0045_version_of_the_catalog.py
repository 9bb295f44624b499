"""The version of the catalog, by which an intake notices that another one, or an adapter, has changed names.

Services of the version before do not raise it: see the how-to page about upgrades.

Revision: 0045
Revises: 0044
"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "versions",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("versions")
