"""No visitor's looks hold up another's, or the page's own, and nobody is shown what was read before they asked."""

import asyncio
import threading
import zlib

import pytest
from watch import PATIENCE_S

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused, Unavailable
from rankd.services.web.records import LONGEST_S, BusRecords, DatabaseRecords
from rankd.services.web.turns import MOST_OF_NOBODY, MOST_OF_ONE, MOST_WAITING
from rankd.store.engine.driver import sqlite3
from rankd.store.look.web.look import NOBODY, Look
from rankd.store.look.web.site import NEWEST, PLACES, SETTINGS
from rankd.wire.web import PageLooked

SEEN = Look("seen", int, lambda *_: 0)
OWNER = "root"


class Intake:
    """Answers each request with the state at the moment at which it came, once it may."""

    def __init__(self):
        self.asked, self.state = [], 0
        self.may_answer = asyncio.Event()
        self.error = None

    async def ask(self, user, _verb, wanted, _kind, within_s, *, is_look):
        assert (within_s, is_look) == (LONGEST_S, True)
        self.asked.append((user, wanted.look, wanted.given.get("n")))
        read = self.state
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        data = {"newest": b"[1,2,3,4,5]", "places": b"[7]", "settings": b"{}"}.get(wanted.look, b"%d" % read)
        return PageLooked(data=zlib.compress(data))


def of(name):
    return Submitter(name, privileged=False)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def begun(group, records, user, number):
    """Looks of one user at this number of addresses."""
    tasks = [group.create_task(records.look(SEEN, of(user), {"n": f"{n}"})) for n in range(number)]
    await settle()
    return tasks


async def test_a_user_with_many_addresses_stops_neither_the_page_nor_other_users():
    intake = Intake()
    records = BusRecords(intake, OWNER)
    async with asyncio.TaskGroup() as group:
        await begun(group, records, "alice", 2 + MOST_OF_ONE)
        with pytest.raises(Unavailable, match="of 'alice' wait already") as refused:
            await records.look(SEEN, of("alice"), {"n": "one more"})
        assert refused.value.code == "busy"
        assert intake.asked == [("alice", "seen", "0"), ("alice", "seen", "1")]
        await begun(group, records, "bob", 2)
        assert intake.asked[2:] == [("bob", "seen", "0"), ("bob", "seen", "1")]
        await begun(group, records, "carol", 1)  # all turns of visitors are taken
        own = group.create_task(records.look(NEWEST, NOBODY, {}))
        await settle()
        assert intake.asked[4:] == [(OWNER, "newest", None)]
        intake.may_answer.set()
        assert (await own).generation
        await records.look(PLACES, NOBODY, {})
        await records.look(SETTINGS, NOBODY, {})
    assert await records.look(SEEN, of("alice"), {}) == 0


async def test_so_many_wait_in_all_and_visitors_without_a_name_have_half_of_the_room():
    intake = Intake()
    records = BusRecords(intake, OWNER)
    async with asyncio.TaskGroup() as group:
        await begun(group, records, "", 2 + MOST_OF_NOBODY)
        with pytest.raises(Unavailable, match="not signed in"):
            await records.look(SEEN, NOBODY, {"n": "one more"})
        for number in range(4 + MOST_WAITING - 2 - MOST_OF_NOBODY):
            await begun(group, records, f"user-{number}", 1)
        with pytest.raises(Unavailable, match="too many look at the page"):
            await records.look(SEEN, of("late"), {})
        intake.may_answer.set()
    assert await records.look(SEEN, of("late"), {}) == 0


async def test_only_a_request_that_still_waits_is_shared_so_own_changes_are_shown():
    intake = Intake()
    records = BusRecords(intake, OWNER)
    async with asyncio.TaskGroup() as group:
        before = group.create_task(records.look(SEEN, of("alice"), {}))
        await settle()
        intake.state = 1  # as the answer to a change that was asked for meanwhile
        after = group.create_task(records.look(SEEN, of("alice"), {}))
        await settle()
        intake.state = 2
        together = [group.create_task(records.look(SEEN, of("alice"), {})) for _ in range(5)]
        await settle()
        assert len(intake.asked) == 2
        intake.may_answer.set()
    assert (before.result(), after.result(), {task.result() for task in together}) == (0, 1, {2})
    assert len(intake.asked) == 3


async def test_a_visitor_who_leaves_takes_nothing_from_those_who_wait_for_the_same():
    intake = Intake()
    records = BusRecords(intake, OWNER)
    async with asyncio.TaskGroup() as group:
        await begun(group, records, "alice", 2)
        leaves, stays = [group.create_task(records.look(SEEN, of("alice"), {})) for _ in range(2)]
        await settle()
        leaves.cancel()
        await settle()
        intake.may_answer.set()
    assert stays.result() == 0
    assert len(intake.asked) == 3


async def test_an_owner_who_is_refused_is_named():
    intake = Intake()
    intake.may_answer.set()
    intake.error = Refused("revoked", "rankd has revoked the access of 'root'", "user", status=403)
    records = BusRecords(intake, OWNER)
    for look in (NEWEST, SETTINGS, PLACES):
        with pytest.raises(Refused, match=r"refuses what the page asks for its owner, 'root': rankd has") as found:
            await records.look(look, NOBODY, {})
        assert (found.value.code, found.value.status) == ("revoked", 403)
    with pytest.raises(Refused, match=r"^rankd has revoked"):
        await records.look(SEEN, of("root"), {})


async def test_with_a_database_slow_looks_of_one_user_hold_up_nobody(tmp_path):
    sqlite3.connect(tmp_path / "rankd.db").close()
    records = DatabaseRecords(str(tmp_path / "rankd.db"))
    go_on, begun_reads = threading.Event(), threading.Semaphore(0)

    def slow(*_):
        begun_reads.release()
        go_on.wait(PATIENCE_S)
        return 0

    held, own = SEEN._replace(read=slow), NEWEST._replace(read=lambda *_: 7)
    try:
        async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE_S):
            for n in range(1 + MOST_OF_ONE):
                group.create_task(records.look(held, of("alice"), {"n": f"{n}"}))
            await settle()
            with pytest.raises(Unavailable, match="of 'alice' wait already"):
                await records.look(held, of("alice"), {})
            assert await records.look(SEEN, of("bob"), {}) == 0
            group.create_task(records.look(held, of("carol"), {}))
            for _ in range(2):
                assert await asyncio.to_thread(begun_reads.acquire, timeout=PATIENCE_S)
            assert await records.look(own, NOBODY, {}) == 7
            assert not go_on.is_set()
            go_on.set()
    finally:
        go_on.set()
        records.close()
