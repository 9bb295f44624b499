"""Messages about submitting jobs: a batch, and what became of each of its jobs."""

from __future__ import annotations

import msgspec

MAX_JOBS_PER_MESSAGE = 10_000


class JobBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many jobs; each is decoded by itself, so that one bad job does not spoil the others."""

    jobs: list[msgspec.Raw]
    atomic: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a batch that was taken."""

    index: int
    id: int


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was not."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each job of a batch, by its place in it."""

    accepted: list[Accepted]
    rejected: list[Rejected]
