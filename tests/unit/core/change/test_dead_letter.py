"""Who may settle a dead letter, and which letters stay, decided without a database."""

from __future__ import annotations

import pytest

from rankd.core.admission.submitter import Submitter
from rankd.core.change import dead_letter
from rankd.core.change.dead_letter import LetterHead, check_whole, letters_beyond_limits, waiting_letter
from rankd.core.errors import Refused

ALICE, BOB, ROOT = Submitter("alice", False), Submitter("bob", False), Submitter("root", True)
LETTER = LetterHead(id=7, user="alice", state="waiting")


def test_a_waiting_letter_is_for_its_user_and_for_administrators():
    assert waiting_letter(7, LETTER, ALICE, "deadletter.drop") is LETTER
    assert waiting_letter(7, LETTER, ROOT, "deadletter.drop") is LETTER
    for letter, asker in ((LETTER, BOB), (None, ROOT)):
        with pytest.raises(Refused, match="there is no dead letter 7 of yours"):
            waiting_letter(7, letter, asker, "deadletter.drop")


@pytest.mark.parametrize("state", ["retried", "dropped"])
def test_a_letter_is_settled_once(state):
    with pytest.raises(Refused, match=f"dead letter 7 was {state} before") as caught:
        waiting_letter(7, LetterHead(id=7, user="alice", state=state), ALICE, "deadletter.drop")
    assert caught.value.code == "already_settled"


def test_a_letter_that_was_cut_is_not_retried():
    check_whole(7, 100, 100)
    with pytest.raises(Refused, match="only the first 100 of its 101 bytes were kept") as caught:
        check_whole(7, 100, 101)
    assert (caught.value.code, caught.value.status) == ("cut_dead_letter", 409)


def test_the_newest_letters_within_both_limits_stay_and_the_newest_one_always(monkeypatch):
    monkeypatch.setattr(dead_letter, "MOST_LETTERS", 3)
    monkeypatch.setattr(dead_letter, "MOST_BYTES", 100)
    assert letters_beyond_limits([(9, 10), (8, 10), (7, 10)]) == []
    assert letters_beyond_limits([(9, 10), (8, 10), (7, 10), (6, 10)]) == [(6, 10)]
    assert letters_beyond_limits([(9, 500), (8, 10)]) == [(8, 10)]
    assert letters_beyond_limits([(9, 60), (8, 60), (7, 10)]) == [(8, 60), (7, 10)]
    assert letters_beyond_limits([]) == []


def test_a_large_letter_counts_with_the_bytes_that_may_be_kept(monkeypatch):
    monkeypatch.setattr(dead_letter, "LARGEST_KEPT", 50)
    monkeypatch.setattr(dead_letter, "MOST_BYTES", 100)
    assert letters_beyond_limits([(9, 10_000), (8, 50), (7, 1)]) == [(7, 1)]
