"""Messages about dead letters: submissions on the enqueue subject that could not be accepted."""

from __future__ import annotations

import msgspec

from rankd.wire.job_selection import AtLeastOne, Failed


class DeadLetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters by id."""

    ids: list[int]


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters. Ordinary users get only their own. ``all``: also retried and dropped ones."""

    ids: list[int] | None = None
    users: list[str] | None = None
    all: bool = False
    after: int | None = None
    limit: AtLeastOne = 1_000


class SettledLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was retried or dropped, and the jobs that it became."""

    id: int
    jobs: list[int] = []


class LettersReply(msgspec.Struct, frozen=True, kw_only=True):
    """The results for dead letters. ``failed`` ones stay, with the reason of this attempt."""

    done: list[SettledLetter]
    failed: list[Failed]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A submission on the enqueue subject that could not be accepted, or a notification that was not sent; and why.

    ``submission`` is the beginning (at most 16 KiB) of a job, or of the whole message if it can't be read. It is None
    in the user's events. ``bytes`` is the size of the whole. ``message_id`` is the sender's.
    """

    id: int
    user: str
    at: float
    message_id: str | None
    code: str
    message: str
    field: str | None
    bytes: int = 0
    submission: str | None = None
    kind: str = "submission"
