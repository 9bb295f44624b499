"""Gives dead letters a size and a preview, and limits their number per user.

Revision: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

PREVIEW_BYTES = 16 * 2**10


def upgrade() -> None:
    op.execute("DROP VIEW IF EXISTS dead_letter")
    op.add_column(
        "dead_letters",
        sa.Column(
            "bytes", sa.Integer(), server_default=sa.text("0"), nullable=False, comment="of the submission as it came"
        ),
    )
    op.add_column(
        "dead_letters",
        sa.Column("preview", sa.Text(), server_default="", nullable=False, comment="its beginning, as text"),
    )
    op.create_index(
        "dead_letters_waiting",
        "dead_letters",
        ["user", "id", "bytes"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "dead_letter_losses",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("letters", sa.Integer(), nullable=False, comment="deleted, since the user had too many"),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False, comment="of the last one"),
        sa.PrimaryKeyConstraint("user"),
    )
    connection = op.get_bind()
    connection.exec_driver_sql("UPDATE dead_letters SET bytes = length(payload)")
    beginnings = connection.exec_driver_sql(
        "SELECT id, substr(CAST(payload AS BLOB), 1, ?) FROM dead_letters", (PREVIEW_BYTES,)
    )
    for id_, beginning in beginnings.all():
        text = bytes(beginning).decode(errors="replace").replace("\0", "\ufffd")
        connection.exec_driver_sql("UPDATE dead_letters SET preview = ? WHERE id = ?", (text, id_))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS dead_letter")
    op.drop_table("dead_letter_losses")
    op.drop_index("dead_letters_waiting", "dead_letters")
    with op.batch_alter_table("dead_letters") as table:
        table.drop_column("preview")
        table.drop_column("bytes")
