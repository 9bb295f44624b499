"""The GPU time of deleted jobs, and an index for the failed notifications of a job.

Jobs that were deleted before count with 0: what they had is not known any more.

Revision: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("usage_days", sa.Column("gpu_s", sa.Float(), nullable=False, server_default=sa.text("0")))
    op.create_index("notifications_job", "notifications", ["job_id"], sqlite_where=sa.text("state = 'waiting'"))


def downgrade() -> None:
    op.drop_index("notifications_job", "notifications")
    op.execute("DROP VIEW IF EXISTS usage_day")
    op.drop_column("usage_days", "gpu_s")
