"""Who may retry or drop a dead letter, and which letters are kept if a user has too many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rankd.core.admission.permission import OwnedLetter, check, unknown_letter
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.core.admission.submitter import Submitter

LARGEST_KEPT = 2**20
"""The most bytes kept of a submission. A job has at most 256 KiB; a message of many jobs may have more."""
MOST_LETTERS = 10_000
"""The most waiting letters of one user. One message can hold the same number of jobs."""
MOST_BYTES = 64 * 2**20
"""The most bytes of the waiting letters of one user."""


class LetterHead(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a dead letter, and its state: ``waiting``, ``retried`` or ``dropped``."""

    id: int
    user: str
    state: str


Letter = TypeVar("Letter", bound=LetterHead)


def waiting_letter(id_: int, letter: Letter | None, asker: Submitter, action: str) -> Letter:
    """The letter with this id, if it waits and this asker may do this with it.

    Raises:
        Refused: ``unknown_dead_letter``, ``already_settled``.
    """
    if letter is None:
        raise unknown_letter(id_)
    check(asker, action, OwnedLetter(id_, letter.user))
    if letter.state != "waiting":
        raise Refused("already_settled", f"dead letter {id_} was {letter.state} before", "ids")
    return letter


def check_whole(id_: int, n_kept: int, n_bytes: int) -> None:
    """Check that all bytes of the letter were kept, so that it can be retried.

    Raises:
        Refused: ``cut_dead_letter``.
    """
    if n_kept < n_bytes:
        why = f"only the first {n_kept} of its {n_bytes} bytes were kept; submit the jobs again from their source"
        raise Refused("cut_dead_letter", f"dead letter {id_} can't be retried: {why}", "ids", status=409)


def letters_beyond_limits(newest_first: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The letters to delete, from a user's waiting letters (id, bytes), newest first. The newest one is always kept."""
    total = 0
    gone: list[tuple[int, int]] = []
    for place, (id_, n_bytes) in enumerate(newest_first):
        total += min(n_bytes, LARGEST_KEPT)
        if place > 0 and (place >= MOST_LETTERS or total > MOST_BYTES):
            gone.append((id_, n_bytes))
    return gone
