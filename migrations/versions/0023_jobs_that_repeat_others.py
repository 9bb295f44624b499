"""Which ended job a job repeats, and what the tasks of an array that repeats others are told about it.

Revision: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column(
            "retry_of", sa.Integer(), nullable=True, comment="the ended job or array that this one repeats; null: none"
        ),
    )
    op.add_column(
        "arrays",
        sa.Column(
            "n_told",
            sa.Integer(),
            nullable=True,
            comment="the number of tasks that its tasks are told, if it repeats others; else null",
        ),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_column("arrays", "n_told")
    op.drop_column("jobs", "retry_of")
