"""Groups of users in the head's user database, as the intake has seen them.

Revision: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_groups",
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("groups", sa.Text(), nullable=False, comment="JSON list: groups in the head's user database"),
        sa.Column("changed_at", sa.Float(), nullable=False, comment="when the intake saw this change"),
    )


def downgrade() -> None:
    op.drop_table("user_groups")
