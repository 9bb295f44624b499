"""Tables of messages that did not become jobs, or did not reach their receivers.

Units are those of :mod:`rankd.store.schema.table`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, LargeBinary, Table, Text, UniqueConstraint, text

from rankd.store.schema.metadata import metadata

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source", Text, nullable=False, unique=True, comment="the message, and which of its jobs"),
    Column("user", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("message_id", Text, comment="the sender's; null: none given"),
    Column("payload", LargeBinary, nullable=False, comment="a job, or the whole message if it can't be read"),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("field", Text),
    Column("state", Text, nullable=False, server_default="waiting", comment="waiting, retried, dropped"),
    Column("jobs", Text, comment="JSON list: the jobs that a retry made"),
    Column("decided_by", Text),
    Column("decided_at", Float),
    Column("published", Boolean, nullable=False, server_default=text("0")),
    Column("bytes", Integer, nullable=False, server_default=text("0"), comment="of the submission as received"),
    Column("preview", Text, nullable=False, server_default="", comment="its beginning, as text"),
    Column("kind", Text, nullable=False, server_default="submission", comment="submission, notification"),
    Index("dead_letters_user", "user"),
    Index("dead_letters_waiting", "user", "id", "bytes", sqlite_where=text("state = 'waiting'")),
    Index("dead_letters_unpublished", "id", sqlite_where=text("published = 0")),
    sqlite_autoincrement=True,
)

dead_letter_losses = Table(
    "dead_letter_losses",
    metadata,
    Column("user", Text, primary_key=True),
    Column("letters", Integer, nullable=False, comment="number deleted because the user had too many"),
    Column("bytes", Integer, nullable=False),
    Column("at", Float, nullable=False, comment="of the last one"),
)

unreadable_messages = Table(
    "unreadable_messages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("stream", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("bytes", Integer, nullable=False, comment="of the whole message"),
    Column("first_bytes", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    UniqueConstraint("stream", "sequence"),
    sqlite_autoincrement=True,
)
