"""Which jobs a request is about, and what became of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

AtLeastOne = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: all conditions hold; lists are alternatives. ``after``: ids above it; ``limit``: at most so many."""

    id: int | None = None
    ids: list[int] | None = None
    users: list[str] | None = None
    accounts: list[str] | None = None
    queues: list[str] | None = None
    partitions: list[str] | None = None
    states: list[str] | None = None
    names: list[str] | None = None
    qos: list[str] | None = None
    after: int | None = None
    limit: AtLeastOne = 100_000


class JobSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs to act upon, by one id, several, or a filter. ``dry_run``: say what would be done, and do nothing."""

    id: int | None = None
    ids: list[int] | None = None
    filter: JobFilter | None = None
    dry_run: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A job that could not be acted upon."""

    id: int
    code: str
    message: str


class SelectionReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which jobs were changed, or would be, and which not and why.

    ``done_count``, ``failed_count``: how many there are, where the lists hold the first of them alone. ``last``:
    where the filter's limit was reached, the last job that was looked at; ask again with ``after`` it.
    """

    done: list[int]
    failed: list[Failed]
    done_count: int | None = None
    failed_count: int | None = None
    last: int | None = None
