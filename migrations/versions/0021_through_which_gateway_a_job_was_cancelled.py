"""Through which gateway a job was cancelled that had an allocation: the event of its end says so.

Revision: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column(
            "cancelled_via",
            sa.Text(),
            nullable=True,
            comment="the gateway that vouched for cancelled_by; null: none did",
        ),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_column("jobs", "cancelled_via")
