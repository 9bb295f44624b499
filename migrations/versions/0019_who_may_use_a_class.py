"""Access lists of priority classes that are made while rankd runs.

Revision: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP VIEW IF EXISTS priority_class")
    op.add_column(
        "priority_classes",
        sa.Column(
            "access",
            sa.Text(),
            nullable=True,
            comment="JSON: users and groups who may use it; null: no list of its own",
        ),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS priority_class")
    op.drop_column("priority_classes", "access")
