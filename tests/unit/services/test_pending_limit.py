"""The limits of pending jobs: they hold whoever submits at the same time, and a flood costs few counts."""

import asyncio

import pytest
from builder import accepted

from rankd.core.model.array import parse_array
from rankd.core.model.setting import AdmissionSettings
from rankd.services.intake import pending_limit
from rankd.services.intake.pending_limit import (
    AGAIN_S,
    ALL,
    TASKS_OF_ALL,
    OfAccount,
    PendingLimits,
    TasksOf,
    records_of,
)


class Records:
    """Pending jobs by user, as the database has them. A count takes a moment, in which others may submit."""

    def __init__(self, per_user=10, in_all=100, took_s=0.0, **pending):
        self.settings = AdmissionSettings(max_pending_per_user=per_user, max_pending=in_all)
        self.pending = pending
        self.of_account, self.tasks = {}, {}
        self.keys = set()
        self.counts, self.sees_late = [], False
        self.now, self.took_s = 0.0, took_s
        self.limits = PendingLimits(lambda: self.settings, self.count, self.known, lambda: self.now)

    async def count(self, user):
        self.counts.append(user)
        if self.sees_late:
            await asyncio.sleep(0)
        if isinstance(user, TasksOf):
            return await self.count_tasks(user.whose)
        everyone = user is ALL or isinstance(user, OfAccount)  # all are in one account, but for of_account
        found = sum(self.pending.values()) if everyone else self.pending.get(user, 0)
        if isinstance(user, OfAccount):
            found = self.of_account.get(user.account, found)
        await asyncio.sleep(0)
        self.now += self.took_s
        return found

    async def count_tasks(self, whose):
        await asyncio.sleep(0)
        return self.tasks.get(whose, 0)

    async def known(self, keys):
        await asyncio.sleep(0)
        return self.keys.intersection(keys)

    async def submit(self, user, number=1, *, atomic=False, stores=True, key=None):
        """The number of jobs that were added."""
        jobs = [accepted(user=user, request={"key": key}) for _ in range(number)]
        refused = await self.limits.reserve(jobs, atomic=atomic)
        added = [] if atomic and refused else [job for at, job in enumerate(jobs) if at not in refused]
        await asyncio.sleep(0)
        if not stores:
            self.limits.lost(added)
            return 0
        if (user, key) not in self.keys:
            self.pending[user] = self.pending.get(user, 0) + len(added)
        await asyncio.sleep(0)
        self.limits.stored(added)
        return len(added)


async def test_a_user_may_have_as_many_pending_jobs_as_the_limit_says():
    records = Records(alice=7)
    assert await records.submit("alice", 5) == 3
    assert await records.submit("alice") == 0
    assert await records.submit("bob", 10) == 10
    assert records.pending == {"alice": 10, "bob": 10}


async def test_an_atomic_message_is_refused_as_a_whole_and_takes_no_room():
    records = Records(alice=7)
    assert await records.submit("alice", 5, atomic=True) == 0
    assert await records.submit("alice", 3, atomic=True) == 3


async def test_all_users_share_a_limit():
    records = Records(in_all=12, alice=7)
    assert await records.submit("bob", 6) == 5
    assert await records.submit("carol") == 0


@pytest.mark.parametrize("number", [1, 3])
async def test_submissions_at_the_same_time_pass_no_limit_together(number):
    records = Records(in_all=25)
    users = ["alice", "bob", "carol"]
    added = await asyncio.gather(*(records.submit(user, number) for _ in range(20) for user in users))
    assert sum(added) == sum(records.pending.values()) <= 25
    assert max(records.pending.values()) <= 10
    assert sum(added) >= 25 - number  # and what is there can be used


async def test_what_is_stored_during_a_count_is_counted_once():
    records = Records(per_user=2)
    jobs = [accepted(user="alice", request={})]
    assert await records.limits.reserve(jobs, atomic=False) == {}
    records.now += AGAIN_S
    records.sees_late = True  # what is stored before the count ends
    async with asyncio.TaskGroup() as tasks:
        second = tasks.create_task(records.limits.reserve_more([{"alice": 2}]))  # does not fit without a count
        await asyncio.sleep(0)
        records.pending["alice"] = 1
        records.limits.stored(jobs)
    assert second.result(), "2 more do not fit"
    assert records.limits.most("alice") == 1


async def test_what_begins_during_a_first_count_is_not_lost():
    records = Records(alice=5)
    records.settings = AdmissionSettings(max_pending_per_user=5, max_pending_per_account=6)
    await records.limits.start()  # 5 of all, so that one more fits into any account without a count
    account = OfAccount("a")
    records.of_account["a"] = 5
    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(records.limits.reserve_more([{account: 7}]))
        await asyncio.sleep(0)
        assert records.counts[-1] == account
        assert await records.limits.reserve_more([{account: 1}]) == {}
    assert counting.result()
    assert records.limits.most(account) == 6
    assert await records.limits.reserve_more([{account: 2}]), "there is no room"


async def test_room_is_seen_again_after_a_moment_and_a_flood_costs_no_more_counts():
    records = Records(alice=10)
    assert await records.submit("alice") == 0
    counted = len(records.counts)
    for _ in range(1000):
        assert await records.submit("alice") == 0
    assert len(records.counts) == counted
    records.pending["alice"] = 4
    assert await records.submit("alice") == 0
    records.now += AGAIN_S
    assert await records.submit("alice", 10) == 6


async def test_a_count_that_takes_long_is_repeated_later():
    records = Records(took_s=2.0, alice=10)
    await records.submit("alice")
    counted = len(records.counts)
    records.now += 30.0
    await records.submit("alice")
    assert len(records.counts) == counted
    records.now += 30.0
    await records.submit("alice")
    assert len(records.counts) > counted


async def test_what_could_not_be_stored_takes_no_room():
    records = Records()
    assert await records.submit("alice", 10, stores=False) == 0
    assert await records.submit("alice", 10) == 10


async def test_a_key_that_is_known_is_answered_also_at_the_limit():
    records = Records(alice=10)
    records.keys.add(("alice", "k"))
    assert await records.submit("alice", key="k") == 1
    assert await records.submit("alice", key="new") == 0


async def test_below_the_limits_a_user_is_counted_once():
    records = Records(per_user=10_000, in_all=10_000)
    await records.limits.start()
    for _ in range(100):
        await records.submit("alice", 10)
    assert records.counts == [ALL, TASKS_OF_ALL, "alice"]


async def test_another_limit_counts_from_the_next_submission():
    records = Records(alice=10)
    assert await records.submit("alice") == 0
    records.settings = AdmissionSettings(max_pending_per_user=12, max_pending=100)
    assert await records.submit("alice", 5) == 2


@pytest.mark.parametrize(
    ("in_all", "setting"), [(100, "admission.max_pending_per_user"), (10, "admission.max_pending")]
)
async def test_a_refusal_names_the_limit_and_what_to_do(in_all, setting):
    records = Records(in_all=in_all, alice=10)
    user = "alice" if in_all == 100 else "bob"
    refusal = (await records.limits.reserve([accepted(user=user)], atomic=True))[0]
    assert (refusal.code, refusal.status, refusal.retryable) == ("too_many_pending", 429, True)
    assert f" {setting} allows; submit again when some have started" in refusal.message
    assert "10 " in refusal.message


async def test_an_account_has_a_limit_of_its_own_and_is_counted_only_if_all_jobs_are_above_it():
    records = Records(in_all=100)
    records.settings = AdmissionSettings(max_pending_per_user=10, max_pending=100, max_pending_per_account=15)
    await records.limits.start()
    assert await records.submit("alice", 10) == 10
    assert not any(isinstance(name, OfAccount) for name in records.counts)
    refused = await records.limits.reserve([accepted(user="bob")] * 10, atomic=False)
    assert len(refused) == 5
    assert "account 'physics' has 15 pending jobs" in refused[9].message
    assert " admission.max_pending_per_account allows; try again when some have started" in refused[9].message
    other = accepted(user="bob", account="biology")
    assert await records.limits.reserve([other] * 5, atomic=False) == {}


async def test_jobs_that_come_into_an_account_count_there_only():
    records = Records(alice=10)
    records.of_account["biology"] = 4
    records.settings = AdmissionSettings(max_pending_per_user=10, max_pending=10, max_pending_per_account=5)
    await records.limits.start()
    moves = [accepted(account="biology")] * 3
    refused = await records.limits.reserve_moves(moves)
    assert {place: refusal.code for place, refusal in refused.items()} == dict.fromkeys((1, 2), "too_many_pending")
    assert "account 'biology' has 5 pending jobs" in refused[1].message
    records.limits.settle_moves(moves[:1], stored=False)
    assert list(await records.limits.reserve_moves(moves[:2])) == [1]
    records.limits.settle_moves(moves[:1], stored=True)
    assert list(await records.limits.reserve_moves(moves[:1])) == [0]
    assert (records.limits.most(ALL), records.limits.most("alice")) == (10, None)


def array(listed="0-9", **fields):
    return accepted(array=parse_array(listed), **fields)


LIMITS = [
    ("max_pending_tasks_per_user", "alice", "user 'alice' would have more than 25 pending tasks"),
    ("max_pending_tasks_per_account", OfAccount("physics"), "account 'physics' would have more than 25 pending tasks"),
    ("max_pending_tasks", ALL, "all users together would have more than 25 pending tasks"),
]


@pytest.mark.parametrize(("setting", "whose", "message"), LIMITS)
async def test_tasks_have_limits_of_their_own_which_single_jobs_count_for_too(setting, whose, message):
    records = Records(per_user=1_000, in_all=1_000)
    records.settings = AdmissionSettings(**{setting: 25})
    records.tasks = {ALL: 4, whose: 4}
    await records.limits.start()
    refused = await records.limits.reserve([array()] * 3, atomic=False)
    assert list(refused) == [2]
    assert (refused[2].code, refused[2].status) == ("too_many_pending", 429)
    assert message in refused[2].message
    assert f" admission.{setting} allows; submit again when some have started, or a smaller array" in refused[2].message
    assert await records.limits.reserve([accepted()], atomic=True) == {}
    assert list(await records.limits.reserve([accepted()], atomic=True)) == [0]


async def test_an_array_that_moves_brings_its_tasks_into_the_account():
    records = Records()
    records.settings = AdmissionSettings(max_pending_tasks_per_account=25)
    records.tasks = {ALL: 100, OfAccount("biology"): 10}
    await records.limits.start()
    moves = [array("0-9", account="biology"), array("0-9", account="biology"), accepted(account="biology")]
    assert list(await records.limits.reserve_moves(moves)) == [1]
    records.limits.settle_moves([moves[0]], stored=False)
    assert await records.limits.reserve_moves([moves[1]]) == {}


async def test_tasks_that_get_records_count_as_jobs_of_their_user_and_account():
    records = Records(per_user=10, in_all=100, alice=7)
    assert list(await records.limits.reserve_more([records_of("alice", "physics", 3)])) == []
    refused = await records.limits.reserve_more([records_of("alice", "physics", 1)])
    assert "admission.max_pending_per_user" in refused[0].message
    records.limits.settle_more(records_of("alice", "physics", 3), stored=False)
    assert await records.limits.reserve_more([records_of("alice", "physics", 3)]) == {}


async def test_a_batch_at_the_limit_is_refused_kind_by_kind_not_job_by_job(monkeypatch):
    """10,000 jobs above a limit took 130 ms, in which nobody else was answered."""
    records = Records(per_user=3, alice=3, bob=2)
    await records.limits.start()
    sums = []
    of_kind = pending_limit.of_kind
    monkeypatch.setattr(pending_limit, "of_kind", lambda *kind: sums.append(kind) or of_kind(*kind))
    jobs = [accepted(user=user) for user in ("alice", "bob") * 500]
    refused = await records.limits.reserve(jobs, atomic=False)
    assert sorted(set(range(1_000)) - refused.keys()) == [1], "bob has room for one"
    assert len(sums) < 20


# --- beside other intakes -----------------------------------------------------------------------------------


async def test_what_others_store_takes_room_also_while_jobs_are_on_their_way():
    records = Records(per_user=3)
    job = accepted(user="alice")
    assert await records.limits.reserve([job], atomic=True) == {}
    names = pending_limit.numbers_of([job]).keys()
    assert records.limits.is_within(names, {"alice": 2, ALL: 2})
    assert not records.limits.is_within(names, {"alice": 3, ALL: 3})
    records.limits.add({"alice": 2, ALL: 2})
    assert not records.limits.is_within(names, {"alice": 1, ALL: 1})
    records.limits.lost([job])
    records.pending["alice"] = 2
    assert await records.submit("alice", 5) == 1


async def test_what_others_store_during_a_count_is_not_forgotten():
    records = Records(per_user=3)

    async def others_store():
        if not records.counts:
            records.limits.add({"alice": 1, ALL: 1})

    records.limits.before_count = others_store
    records.pending["alice"] = 1
    assert await records.submit("alice", 5) == 2, "what was added before the count is in it"
