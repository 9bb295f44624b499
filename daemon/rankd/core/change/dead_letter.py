"""Who may retry or drop a dead letter, and which letters a user with too many keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.core.admission.admit import Submitter

LARGEST_KEPT = 2**20
"""Bytes of a submission that are kept whole. A job has at most 256 KiB; a message of many jobs may have more."""
MOST_LETTERS = 10_000
"""Waiting letters of one user: as many as one message can hold jobs."""
MOST_BYTES = 64 * 2**20
"""Bytes of the waiting letters of one user."""


class LetterHead(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a dead letter is, and its state: ``waiting``, ``retried`` or ``dropped``."""

    id: int
    user: str
    state: str


Letter = TypeVar("Letter", bound=LetterHead)


def waiting_letter(id_: int, letter: Letter | None, asker: Submitter) -> Letter:
    """The letter with this id, if it waits and this asker may retry or drop it.

    Raises:
        Refused: ``unknown_dead_letter``, ``already_settled``.
    """
    if letter is None or (letter.user != asker.user and not asker.privileged):
        message = f"there is no dead letter {id_} of yours; see `rankd deadletter list`"
        raise Refused("unknown_dead_letter", message, "ids")
    if letter.state != "waiting":
        raise Refused("already_settled", f"dead letter {id_} was {letter.state} before", "ids")
    return letter


def check_whole(id_: int, n_kept: int, n_bytes: int) -> None:
    """Check that all bytes of the letter were kept, so that it can be retried.

    Raises:
        Refused: ``cut_dead_letter``.
    """
    if n_kept < n_bytes:
        why = f"only the beginning of its {n_bytes} bytes was kept; submit it again from where it came"
        raise Refused("cut_dead_letter", f"dead letter {id_} can't be retried: {why}", "ids", status=409)


def letters_beyond_limits(newest_first: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of a user's waiting letters (id, bytes), newest first: those to delete. The newest one always stays."""
    total = 0
    gone: list[tuple[int, int]] = []
    for place, (id_, n_bytes) in enumerate(newest_first):
        total += min(n_bytes, LARGEST_KEPT)
        if place > 0 and (place >= MOST_LETTERS or total > MOST_BYTES):
            gone.append((id_, n_bytes))
    return gone
