"""Whom the intake no longer lets in sees nothing. An intake that does not answer locks nobody out."""

import asyncio

import pytest

from rankd.core.errors import Refused, Unavailable
from rankd.services.web import admitted
from rankd.services.web.admitted import Admitted


class Intake:
    """Answers with an error, as the intake always does to this request."""

    def __init__(self):
        self.error = self.usual = Refused("unknown_report", "there is none", status=404)
        self.asked = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def ask(self, user, verb, _message, _kind, _within_s):
        self.asked.append((user, verb))
        await self.answers.wait()
        raise self.error


@pytest.fixture
def now():
    return [1_700_000_000.0]


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("code", ["revoked", "unknown_gateway"])
async def test_a_new_visitor_waits_for_the_answer_and_is_refused_in_its_words(now, code):
    intake = Intake()
    intake.error = Refused(code, "not any more", "user", status=403)
    with pytest.raises(Refused, match="not any more") as found:
        await Admitted(intake, lambda: now[0]).check("alice")
    assert (found.value.code, found.value.status) == (code, 403)


async def test_the_answer_counts_for_a_while_and_is_then_renewed_beside_the_visitor(now):
    checked = Admitted(intake := Intake(), lambda: now[0])
    for _ in range(3):
        await checked.check("alice")
    assert intake.asked == [("alice", "report.part")]
    intake.error = Refused("revoked", "gone", status=403)
    intake.answers.clear()
    now[0] += admitted.AGAIN_S + 1
    for _ in range(3):  # an intake that is slow holds nobody up, and is asked once
        await checked.check("alice")
        await settle()
    assert len(intake.asked) == 2
    intake.answers.set()
    await settle()
    with pytest.raises(Refused, match="gone"):
        await checked.check("alice")


async def test_without_an_answer_the_last_one_counts(now):
    checked = Admitted(intake := Intake(), lambda: now[0])
    intake.error = Unavailable("no_answer", "nobody is there")
    await checked.check("bob")
    intake.error = Refused("revoked", "gone", status=403)
    with pytest.raises(Refused):
        await checked.check("alice")
    intake.error = Unavailable("no_answer", "nobody is there")
    now[0] += admitted.AGAIN_S + 1
    for _ in range(2):
        with pytest.raises(Refused):
            await checked.check("alice")
        await settle()


async def test_what_is_known_of_visitors_is_bounded(now, monkeypatch):
    monkeypatch.setattr(admitted, "MOST_KNOWN", 3)
    checked = Admitted(intake := Intake(), lambda: now[0])
    for number in range(9):
        await checked.check(f"u{number}")
    assert len(checked._known) == 3
    await checked.check("u8")
    assert len(intake.asked) == 9
