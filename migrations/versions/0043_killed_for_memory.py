"""Jobs that the kernel killed for memory have a state of their own. Before, they had failed, with this cause.

Only the rows of failed jobs are looked at, by the index of users and states.

Revision: 0043
Revises: 0042
"""

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE jobs SET state = 'out_of_memory' WHERE id IN ("
        " SELECT j.id FROM jobs j WHERE j.state = 'failed' AND EXISTS ("
        "  SELECT 1 FROM job_events e WHERE e.job_id = j.id AND e.event = 'fail' AND e.cause = 'out_of_memory'))"
    )
    op.execute(
        "UPDATE job_events SET event = 'exceed_memory', state = 'out_of_memory'"
        " WHERE event = 'fail' AND cause = 'out_of_memory' AND job_id IN ("
        " SELECT j.id FROM jobs j WHERE j.state = 'out_of_memory')"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE job_events SET event = 'fail', state = 'failed' WHERE event = 'exceed_memory' AND job_id IN ("
        " SELECT j.id FROM jobs j WHERE j.state = 'out_of_memory')"
    )
    op.execute("UPDATE jobs SET state = 'failed' WHERE state = 'out_of_memory'")
