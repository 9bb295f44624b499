"""Which jobs wait for which; tasks that wait by index; earlier jobs of the same name; cancelling what can't start.

Revision: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_OF_ARRAYS = (("eligible", sa.Text()), ("n_eligible", sa.Integer()), ("unmet", sa.Text()), ("n_unmet", sa.Integer()))


def upgrade() -> None:
    op.add_column("jobs", sa.Column("cancel_if_unmet", sa.Boolean(), nullable=True))
    op.create_index(
        "jobs_name",
        "jobs",
        ["user", "name"],
        sqlite_where=sa.text("state IN ('pending', 'allocated', 'running')"),
    )
    for name, kind in _OF_ARRAYS:
        op.add_column("arrays", sa.Column(name, kind, nullable=True))
    op.create_table(
        "job_waits",
        sa.Column("awaited", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("job_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("task", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("awaited", "job_id", "task", "type"),
        sqlite_with_rowid=False,
    )
    op.create_index("job_waits_job", "job_waits", ["job_id"])
    op.execute(
        "INSERT OR IGNORE INTO job_waits (awaited, job_id, task, type)"
        " SELECT json_extract(d.value, '$.job'), j.id, -1, json_extract(d.value, '$.type')"
        " FROM jobs j, json_each(j.depends_on) d"
        " WHERE j.state = 'pending' AND j.depends_on IS NOT NULL AND typeof(json_extract(d.value, '$.job')) = 'integer'"
    )


def downgrade() -> None:
    op.drop_table("job_waits")
    op.execute("DROP VIEW IF EXISTS job")
    op.drop_index("jobs_name", "jobs")
    op.drop_column("jobs", "cancel_if_unmet")
    for name, _ in reversed(_OF_ARRAYS):
        op.drop_column("arrays", name)
