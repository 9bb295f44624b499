"""Generations based on an earlier one. The order in narrower chunks and by leaf, and its head as rows.

Revision: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "generations",
        sa.Column(
            "base",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="the full generation that it stands on: what is stored of it has that number",
        ),
    )
    op.add_column(
        "generations",
        sa.Column("made_at", sa.Float(), server_default=sa.text("0"), nullable=False, comment="when it became visible"),
    )
    op.execute("UPDATE generations SET base = number, made_at = ranked_at")
    _make_chunks(sa.LargeBinary(), sa.LargeBinary())
    op.create_table(
        "ranking_leaves",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=False, comment="int64, little endian, by rank"),
        sa.Column("priorities", sa.LargeBinary(), nullable=False, comment="int32"),
        sa.Column("ranks", sa.LargeBinary(), nullable=False, comment="int32"),
        sa.PrimaryKeyConstraint("generation", "queue_id", "chunk"),
    )
    op.create_table(
        "ranking_deltas",
        sa.Column("generation", sa.Integer(), nullable=False, comment="generations.base"),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="the delta generation that wrote it"),
        sa.Column(
            "positions", sa.Text(), nullable=False, comment="JSON list: +p, inserted before rank p; -p, rank p removed"
        ),
        sa.Column("ids", sa.Text(), nullable=False, comment="JSON list beside it: the inserted job, or 0"),
        sa.Column("priorities", sa.Text(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("generation", "chunk"),
    )
    op.create_table(
        "ranking_delta_places",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("first_position", sa.Integer(), nullable=False, comment="of its first entry, without sign"),
        sa.Column("place", sa.Integer(), nullable=False, comment="of the chunk among all"),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("shift", sa.Integer(), nullable=False, comment="inserted before the chunk - removed before it"),
        sa.PrimaryKeyConstraint("generation", "first_position", "place"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ranking_delta_jobs",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=True, comment="null: it has no rank any more"),
        sa.PrimaryKeyConstraint("generation", "job_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ranking_head",
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("rank"),
    )


def downgrade() -> None:
    for table in ("head", "delta_jobs", "delta_places", "deltas", "leaves"):
        op.drop_table(f"ranking_{table}")
    _make_chunks(sa.Text(), sa.Text())
    op.drop_column("generations", "made_at")
    op.drop_column("generations", "base")


def _make_chunks(priorities: sa.types.TypeEngine, ranks: sa.types.TypeEngine) -> None:
    """Create the tables empty: the prioritizer's first pass fills them."""
    op.drop_table("ranking_chunks")
    op.drop_table("rank_chunks")
    op.create_table(
        "ranking_chunks",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("first_rank", sa.Integer(), nullable=False),
        sa.Column("ids", sa.Text(), nullable=False, comment="JSON list of job ids by rank"),
        sa.Column("priorities", priorities, nullable=False, comment="beside ids, 11 characters each"),
        sa.PrimaryKeyConstraint("generation", "chunk"),
    )
    op.create_table(
        "rank_chunks",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False, comment="job id / 4096"),
        sa.Column("first_id", sa.Integer(), nullable=False),
        sa.Column("ranks", ranks, nullable=False, comment="by job id, 8 characters each; 0: not ranked"),
        sa.PrimaryKeyConstraint("generation", "chunk"),
    )
