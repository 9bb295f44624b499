"""Distinguishes two agents of one name: a node's record has the random id of its agent's state directory.

Revision: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "nodes",
        sa.Column("instance", sa.Text(), nullable=True, comment="of the agent's state directory; null: not known"),
    )


def downgrade() -> None:
    op.drop_column("nodes", "instance")
