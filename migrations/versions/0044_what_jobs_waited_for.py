"""What jobs waited for: six parts of each job's waiting time, and the causes of each kind of job over time.

Jobs that started or ended before have none. Those that wait are counted from their submission on. Columns with
defaults are added without rewriting the table.

Revision: 0044
Revises: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

PARTS = tuple(f"waited_{cause}_s" for cause in ("dependency", "held", "quota", "resources", "reserved", "starting"))


def upgrade() -> None:
    for name in PARTS:
        op.add_column("jobs", sa.Column(name, sa.Float(), nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("waited_until", sa.Float()))
    op.add_column("jobs", sa.Column("waited_s", sa.Float()))
    op.create_table(
        "reason_spells",
        sa.Column("queue_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("shape", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("time_limit_s", sa.Float(), primary_key=True),
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("application_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("since", sa.Float(), primary_key=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("reason_spells_shape", "reason_spells", ["shape"])
    op.create_index("reason_spells_gone", "reason_spells", ["since"], sqlite_where=sa.text("cause = ''"))


def downgrade() -> None:
    for view in ("job_priority", "queue_head", "job_factor", "node", "allocation", "job"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    op.drop_table("reason_spells")
    for name in ("waited_s", "waited_until", *reversed(PARTS)):
        op.drop_column("jobs", name)
