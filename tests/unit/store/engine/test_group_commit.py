import asyncio
import contextlib

import pytest
from builder import NOW, new_database
from watch import PATIENCE_S

from rankd.core.errors import Refused, RoleLost, Unavailable
from rankd.store.engine.group_commit import MAX_WAITING, TRIES, Behind, GroupCommit, News
from rankd.store.engine.sqlite import MAX_GROUP
from rankd.store.engine.url import open_database

ROLE = "intake"
"""A work that is forgotten fails its test; it does not hang it."""


class Told:
    """Counts what it is told, as the relay and the intake would be."""

    def __init__(self):
        self.commits = 0
        self.rollbacks = 0
        self.news = []

    async def after_commit(self, news):
        self.commits += 1
        self.news.append(news)

    async def on_rollback(self):
        self.rollbacks += 1


@pytest.fixture
def told():
    return Told()


@pytest.fixture
async def group(tmp_path, told):
    async with open_database(new_database(tmp_path), durable=False) as database:
        await database.take_role(ROLE, NOW)
        yield GroupCommit(database, ROLE, told.after_commit, told.on_rollback)


def note(name):
    """A work that leaves a row and returns its name."""

    def work(connection):
        connection.exec_driver_sql("INSERT INTO node_events (node, event, at, actor) VALUES (?, 'x', 0, '')", (name,))
        return name

    return work


def fail(error, name="half"):
    """A work that writes something and then fails."""

    def work(connection):
        note(name)(connection)
        raise error

    return work


async def noted(group):
    query = "SELECT node FROM node_events ORDER BY id"
    return await group._database.read(lambda c: [row[0] for row in c.exec_driver_sql(query)])


async def together(group, *works, rounds=1, **how):
    """Ask for all works at once, run some rounds, return what came of each."""
    asked = [asyncio.ensure_future(group.do(work, **how)) for work in works]  # noqa: TID251 - gathered below
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(rounds):
            await group.run_once()
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_what_arrives_together_is_committed_together_in_its_order(group, told):
    assert await together(group, *(note(f"n{n}") for n in range(50))) == [f"n{n}" for n in range(50)]
    assert await noted(group) == [f"n{n}" for n in range(50)]
    assert told.commits == 1
    assert told.rollbacks == 0


def notes(calls):
    """A work that leaves a row per part, keeps in ``calls`` what it was called with, and fails where it must."""

    def work(connection, parts):
        calls.append(list(parts))
        for part in parts:
            note(part)(connection)
        if "bad" in parts:
            raise Refused("no", "not this one")
        return [part.upper() for part in parts]

    return work


async def do_all(group, *asked):
    """One round for all of these; what came of each."""
    tasks = [asyncio.ensure_future(one) for one in asked]  # noqa: TID251 - gathered below
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await group.run_once()
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_works_of_a_kind_that_stand_side_by_side_are_one_call(group, told):
    calls = []
    add = notes(calls)
    asked = [group.do_together(add, "a"), group.do_together(add, "b"), group.do(note("c")), group.do_together(add, "d")]
    assert await do_all(group, *asked) == ["A", "B", "c", "D"]
    assert calls == [["a", "b"], ["d"]]
    assert await noted(group) == ["a", "b", "c", "d"]
    assert told.commits == 1


async def test_of_works_done_together_one_that_is_impossible_fails_alone(group):
    calls = []
    add = notes(calls)
    first, bad, last = await do_all(group, *(group.do_together(add, name) for name in ("a", "bad", "b")))
    assert (first, last) == ("A", "B")
    assert bad.code == "no"
    assert calls == [["a", "bad", "b"], ["a"], ["bad", "b"], ["bad"], ["b"]]
    assert await noted(group) == ["a", "b"]


async def test_one_that_is_impossible_does_not_take_the_others_with_it(group, told):
    error = Refused("no", "not this one")
    results = await together(group, note("a"), fail(error), note("b"))
    assert results == ["a", error, "b"]
    assert await noted(group) == ["a", "b"]
    assert told.commits == 1
    assert told.rollbacks == 3  # of the group, of a half, and of the one


async def test_one_of_many_that_is_impossible_costs_few_transactions(group, told):
    names = [f"{number}" for number in range(128)]
    works = [*map(note, names[:77]), fail(ValueError()), *map(note, names[77:])]
    results = await together(group, *works)
    assert [result for result in results if isinstance(result, str)] == names == await noted(group)
    assert told.rollbacks <= 9  # the group, and each half that had it


@pytest.mark.parametrize("error", [ValueError("bug"), KeyError("x"), Unavailable("full", "disk full")])
async def test_whatever_a_work_raises_reaches_the_one_who_asked(group, error):
    (result,) = await together(group, fail(error))
    assert result is error
    assert await noted(group) == []
    assert await together(group, note("next")) == ["next"]


async def test_a_failed_alone_leaves_nothing_to_tell(group, told):
    await together(group, fail(ValueError()))
    assert told.commits == 0


async def test_nobody_is_told_of_quiet_works_alone(group, told):
    assert await together(group, note("a"), note("b"), news=News.NOBODY) == ["a", "b"]
    assert told.commits == 0
    calls = []
    add = notes(calls)
    assert await do_all(group, *(group.do_together(add, name, news=News.NOBODY) for name in "cd")) == ["C", "D"]
    assert (calls, told.commits) == ([["c", "d"]], 0)
    await together(group, note("e"))
    assert told.commits == 1


async def test_the_largest_news_of_a_group_counts(group, told):
    new = {"news": News.OF_NEW_JOBS}
    await together(group, note("a"), note("b"), **new)
    await do_all(group, group.do(note("c"), **new), group.do(note("d"), news=News.NOBODY))
    await do_all(group, group.do(note("e"), **new), group.do(note("f")))
    assert told.news == [News.OF_NEW_JOBS, News.OF_NEW_JOBS, News.EVERYBODY]


async def test_the_result_may_say_who_is_told(group, told):
    of_result = lambda result: News.EVERYBODY if result == "a" else News.NOBODY  # noqa: E731
    await together(group, note("b"), news=of_result)
    assert told.news == []
    await together(group, note("b"), note("a"), news=of_result)
    assert told.news == [News.EVERYBODY]


async def test_a_group_has_its_limit(group, told):
    works = [note(str(n)) for n in range(MAX_GROUP + 1)]
    assert await together(group, *works, rounds=2) == [str(n) for n in range(MAX_GROUP + 1)]
    assert told.commits == 2


async def test_too_many_waiting_are_turned_away_at_once(group):
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(group.do(note("x"))) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as caught:
            await group.do(note("one too many"))
        for task in waiting:
            task.cancel()
    assert caught.value.code == "busy"
    assert caught.value.retryable


async def test_clients_take_turns_so_that_a_flood_waits_for_itself(group):
    flood = [group.do(note(f"flood {n}"), client="alice") for n in range(3)]
    others = [group.do(note(f"bob {n}"), client="bob") for n in range(2)]
    async with asyncio.TaskGroup() as tasks:
        for asked in (*flood, *others, group.do(note("carol"), client="carol")):
            tasks.create_task(asked)
        await asyncio.sleep(0)
        await group.run_once()
    assert await noted(group) == ["flood 0", "bob 0", "carol", "flood 1", "bob 1", "flood 2"]


async def test_who_no_longer_waits_does_not_disturb_the_others(group):
    async with asyncio.TaskGroup() as tasks:
        gone, stays = tasks.create_task(group.do(note("gone"))), tasks.create_task(group.do(note("stays")))
        await asyncio.sleep(0)
        gone.cancel()
        await group.run_once()
        assert await stays == "stays"


async def test_whoever_lost_the_role_stops_and_tells_those_who_wait(group):
    steal = "UPDATE roles SET epoch = epoch + 1 WHERE name = ?"
    await group._database.write(lambda c: c.exec_driver_sql(steal, (ROLE,)))
    asked = asyncio.ensure_future(group.do(note("a")))  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    with pytest.raises(RoleLost):
        await group.run_once()
    with pytest.raises(RoleLost):
        await asked
    assert await noted(group) == []


async def test_run_goes_on_until_it_is_cancelled(group):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(group.run())
        assert [await group.do(note(name)) for name in "abc"] == ["a", "b", "c"]
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


class Watching:
    """Finds this many times that the works are based on something old. ``at_begin`` is called first.

    ``seen``: how many rows each transaction found and left; None: it was not committed.
    """

    def __init__(self, behind=0, at_begin=lambda: None):
        self.behind, self.seen, self.at_begin = behind, [], at_begin

    query = "SELECT count(*) FROM node_events"

    def begin(self, _connection, found):
        self.seen.append(found[0])
        self.at_begin()
        if self.behind:
            self.behind -= 1
            raise Behind

    def settle(self, left):
        self.seen.append(left and left[0])


async def watched(tmp_path, told, watch):
    """The answer to one work, or its error."""
    async with open_database(new_database(tmp_path), durable=False) as database:
        await database.take_role(ROLE, NOW)
        group = GroupCommit(database, ROLE, told.after_commit, told.on_rollback, watch)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(group.do(note("n1")))
            await group.run_once()
            return (await asyncio.gather(asked, return_exceptions=True))[0] if asked.done() else await asked


async def test_works_that_are_based_on_something_old_are_done_after_it_was_read_again(tmp_path, told):
    watch = Watching(behind=2)
    assert await watched(tmp_path, told, watch) == "n1"
    assert watch.seen == [*[0, None] * 2, 0, 1]
    assert (told.rollbacks, told.commits) == (2, 1)


async def test_works_that_are_always_outdated_are_refused_with_advice_to_repeat_them(tmp_path, told):
    with pytest.raises(BaseExceptionGroup) as refused:
        await watched(tmp_path, told, Watching(behind=TRIES + 1))
    assert refused.value.exceptions[0].code == "busy"
    assert told.commits == 0


async def test_what_arrives_while_others_write_belongs_to_this_transaction(tmp_path, told):
    """The look at the records runs under the lock of all writers: who comes until then need not wait for the next."""
    loop, asked = asyncio.get_running_loop(), []

    async def arrive(name):
        asked.append(tasks.create_task(group.do(note(name))))
        await asyncio.sleep(0)

    watch = Watching(at_begin=lambda: asyncio.run_coroutine_threadsafe(arrive("late"), loop).result(PATIENCE_S))
    async with open_database(new_database(tmp_path), durable=False) as database:
        await database.take_role(ROLE, NOW)
        group = GroupCommit(database, ROLE, told.after_commit, told.on_rollback, watch)
        async with asyncio.TaskGroup() as tasks:
            await arrive("early")
            await group.run_once()
            assert await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S) == ["early", "late"]
    assert (watch.seen, told.commits) == ([0, 2], 1)


async def test_a_transaction_that_can_not_begin_leaves_nobody_waiting(tmp_path, told):
    def fails():
        raise Unavailable("storage_failed", "the server is away")

    with pytest.raises(BaseExceptionGroup) as refused:
        await watched(tmp_path, told, Watching(at_begin=fails))
    assert refused.value.exceptions[0].code == "storage_failed"
    assert told.rollbacks == 1
