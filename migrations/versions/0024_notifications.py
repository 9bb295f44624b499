"""Notifications: what jobs want, what is on its way, and dead letters of those that failed.

Revision: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_notifications",
        sa.Column("job_id", sa.Integer(), primary_key=True, autoincrement=False, comment="of a task: its array"),
        sa.Column("wanted", sa.Integer(), nullable=False, comment="the events, as core.model.notification.Wanted"),
        sa.Column("notify", sa.Text(), nullable=False, comment="the field as submitted"),
        sa.Column(
            "has_begun",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("0"),
            comment="the start of an array was noted",
        ),
    )
    op.create_table(
        "notifications",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("event_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False, comment="of the target in the job's list"),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False, comment="what shares a receiver, which may be slow"),
        sa.Column("target", sa.Text(), nullable=False, comment="empty once it is done"),
        sa.Column("body", sa.Text(), nullable=False, comment="what is sent; empty once it is done"),
        sa.Column("state", sa.Text(), nullable=False, comment="waiting, done"),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("first_at", sa.Float(), nullable=False, comment="since when it is tried"),
        sa.Column("next_at", sa.Float(), nullable=False, comment="when it is sent, or sent again"),
        sa.Column("slot_at", sa.Float(), nullable=False, comment="its turn among those of its user"),
        sa.Column("problem", sa.Text(), comment="why the last attempt failed"),
        sa.UniqueConstraint("event_id", "place"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "notifications_waiting", "notifications", ["lane", "next_at"], sqlite_where=sa.text("state = 'waiting'")
    )
    op.create_index("notifications_done", "notifications", ["slot_at"], sqlite_where=sa.text("state = 'done'"))
    op.create_index("notifications_user", "notifications", ["user", "slot_at"])
    op.add_column(
        "dead_letters",
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            server_default="submission",
            comment="submission, notification",
        ),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS dead_letter")
    op.drop_column("dead_letters", "kind")
    op.drop_table("notifications")
    op.drop_table("job_notifications")
