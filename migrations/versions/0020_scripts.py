"""The scripts of jobs, in a table of their own.

Revision: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_scripts",
        sa.Column("job_id", sa.Integer(), primary_key=True),
        sa.Column("script", sa.LargeBinary(), nullable=False, comment="UTF-8; its length can be read without its text"),
    )


def downgrade() -> None:
    op.drop_table("job_scripts")
