"""Of arrays as a whole: the first start, the last end and the highest exit status of their tasks.

Before, an array's start was that of its last task's allocation, and it had no exit status.

Revision: 0030
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_STARTS = """UPDATE jobs SET started_at = (SELECT min(t.started_at) FROM jobs t WHERE t.array_job = jobs.id)
    WHERE id IN (SELECT job_id FROM arrays)"""
_ENDS = "UPDATE arrays SET ended_at = (SELECT max(t.ended_at) FROM jobs t WHERE t.array_job = arrays.job_id)"
_EXIT_CODES = """UPDATE jobs SET (exit_status, signal) = (
        SELECT t.exit_status, t.signal FROM jobs t
        WHERE t.array_job = jobs.id AND (t.exit_status > 0 OR t.signal > 0)
        ORDER BY coalesce(t.exit_status, 0) DESC, coalesce(t.signal, 0) DESC LIMIT 1)
    WHERE id IN (SELECT job_id FROM arrays WHERE n_failed + n_cancelled > 0)"""


def upgrade() -> None:
    op.add_column("arrays", sa.Column("ended_at", sa.Float(), nullable=True))
    for statement in (_STARTS, _ENDS, _EXIT_CODES):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_column("arrays", "ended_at")
