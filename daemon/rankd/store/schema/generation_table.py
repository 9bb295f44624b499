"""Tables of generations: passes, the values that they stored per group, the order and its deltas.

They belong to the metadata of :mod:`rankd.store.schema.table`, with the same units. Import this module to load them.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from rankd.store.schema.metadata import metadata

generations = Table(
    "generations",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("ranked_at", Float, nullable=False),
    Column("policy", Text, nullable=False),
    Column("revision", Integer, nullable=False, comment="id of the last event that the pass includes"),
    Column("jobs", Integer, nullable=False),
    Column("new_jobs", Integer, nullable=False, comment="ranked for the first time since they became eligible"),
    Column("weights", Text, nullable=False),
    Column("durations", Text, nullable=False, comment="seconds by phase"),
    Column("failures", Text, nullable=False, comment="factors that kept their last good values"),
    Column(
        "base",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="the full generation that it is based on; its rows are stored under that number",
    ),
    Column("made_at", Float, nullable=False, server_default=text("0"), comment="when it became visible"),
    Column("configuration", Integer, comment="number of the recorded one; null: files that no intake recorded"),
)

generation_numbers = Table(
    "generation_numbers",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("name", Text, primary_key=True, comment="weight.<factor> or <factor>.<parameter>"),
    Column("value", Float, nullable=False),
)

generation_values = Table(
    "generation_values",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("factor", Text, primary_key=True),
    Column("key", Integer, primary_key=True, comment="id of the association, QoS, queue or job"),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

generation_partitions = Table(
    "generation_partitions",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("nodes", Float, nullable=False),
    Column("cores", Float, nullable=False),
)

generation_queues = Table(
    "generation_queues",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("queue_id", Integer, primary_key=True),
    Column("priority", Integer),
    Column("share", Float, nullable=False),
    Column("pending_jobs", Integer, nullable=False),
    Column("pending", Text, nullable=False),
    Column("allocated", Text, nullable=False),
)

generation_waiting_applications = Table(
    "generation_waiting_applications",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("application_id", Integer, primary_key=True, comment="its leaf ranks others before it (stateaware)"),
    sqlite_with_rowid=False,
)

generation_associations = Table(
    "generation_associations",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("association_id", Integer, primary_key=True),
    Column("shares_norm", Float),
    Column("usage", Float, nullable=False),
    Column("usage_effective", Float),
    Column("level_fairshare", Float),
    Column("fairshare", Float),
)

ranking_chunks = Table(
    "ranking_chunks",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("first_rank", Integer, nullable=False),
    Column("ids", Text, nullable=False, comment="JSON list of job ids by rank"),
    Column("priorities", LargeBinary, nullable=False, comment="in the order of ids, 11 characters each"),
)

rank_chunks = Table(
    "rank_chunks",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("chunk", Integer, primary_key=True, comment="job id / 4096"),
    Column("first_id", Integer, nullable=False),
    Column("ranks", LargeBinary, nullable=False, comment="by job id, 8 characters each; 0: not ranked"),
)

ranking_leaves = Table(
    "ranking_leaves",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("queue_id", Integer, primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("ids", LargeBinary, nullable=False, comment="int64, little endian, by rank"),
    Column("priorities", LargeBinary, nullable=False, comment="int32"),
    Column("ranks", LargeBinary, nullable=False, comment="int32"),
)

ranking_deltas = Table(
    "ranking_deltas",
    metadata,
    Column("generation", Integer, primary_key=True, comment="generations.base"),
    Column("chunk", Integer, primary_key=True),
    Column("number", Integer, nullable=False, comment="the delta generation that wrote it"),
    Column("positions", Text, nullable=False, comment="JSON list: +p, inserted before rank p; -p, rank p removed"),
    Column("ids", Text, nullable=False, comment="JSON list in the same order: the inserted job, or 0"),
    Column("priorities", Text, nullable=False),
    Column("queues", Text, nullable=False),
)

ranking_delta_places = Table(
    "ranking_delta_places",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("first_position", Integer, primary_key=True, comment="of its first entry, without sign"),
    Column("place", Integer, primary_key=True, comment="the chunk's position among all"),
    Column("chunk", Integer, nullable=False),
    Column("shift", Integer, nullable=False, comment="jobs inserted before the chunk - jobs removed before it"),
    sqlite_with_rowid=False,
)

ranking_delta_jobs = Table(
    "ranking_delta_jobs",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("job_id", Integer, primary_key=True),
    Column("chunk", Integer, comment="null: it no longer has a rank"),
    sqlite_with_rowid=False,
)

ranking_head = Table(
    "ranking_head",
    metadata,
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("job_id", Integer, nullable=False),
)
