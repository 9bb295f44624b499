"""Who holds a job: its owner can't release it if an administrator holds it.

For jobs that are held already, their events say who.

Revision: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column(
            "held_by",
            sa.Text(),
            nullable=True,
            comment="who holds it; null: nobody, or it was held before this was recorded",
        ),
    )
    op.execute(
        """
        UPDATE jobs SET held_by = (
            SELECT e.actor FROM job_events e WHERE e.job_id = jobs.id AND (e.event IN ('submit', 'hold')
                OR (e.event = 'update' AND e.detail LIKE '%"held": {"before": false, "after": true}%'))
            ORDER BY e.id DESC LIMIT 1)
        WHERE state = 'pending' AND held
        """
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_column("jobs", "held_by")
