"""The prioritizer on a real database: passes one at a time, at instants that the test chooses."""

from __future__ import annotations

import asyncio
import itertools
import json
import math

import builder
import msgspec
import numpy as np
import pytest
from integration.stage import NOW, a_cluster, connected, process, running, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.core.change import job_action
from rankd.core.errors import Unavailable
from rankd.core.instant import shown_instant
from rankd.core.model.job import Dependency
from rankd.core.model.setting import FairshareSettings, PrioritySettings, Qos
from rankd.services.prioritizer.service import PrioritizerOptions, run
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.sqlite import SqliteDatabase
from rankd.store.record import generation as stored_generation
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.node import register_node
from rankd.wire.message import NodeRegistration, RankingEvent, Report

HALF_LIFE_S = 1000.0
STAGED = [
    *(f"generation_{what}" for what in ("numbers", "values", "partitions", "queues", "associations")),
    *("ranking_chunks", "rank_chunks", "ranking_leaves"),
]


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def configuration(**priority):
    fields = {"fairshare": FairshareSettings(half_life_s=HALF_LIFE_S), **priority}
    return builder.configuration(priority=PrioritySettings(**fields))


def generations(cluster) -> list[tuple]:
    return cluster.rows("SELECT number, new_jobs, jobs FROM generations ORDER BY number")


def check_breakdowns(cluster) -> int:
    """Every row adds up, agrees with the stored order, and is of the newest generation; how many have a rank."""
    names = json.loads(cluster.rows("SELECT weights FROM generation ORDER BY number DESC LIMIT 1")[0][0])
    columns = ", ".join(f'"{name}_points"' for name in names)
    order = cluster.rows("SELECT rank, job_id, priority FROM ranking")
    stored = {job: (rank, priority) for rank, job, priority in order}
    breakdowns = cluster.rows(
        f"SELECT id, rank, priority, class_value, points_sum, override, generation, {columns} FROM job_priority"
    )
    for job, rank, priority, class_value, points_sum, override, generation, *points in breakdowns:
        total = 0.0
        for part in points:
            total += part
        assert total == points_sum
        assert override or priority == class_value + math.trunc(points_sum)
        assert (rank, priority if rank else None) == stored.get(job, (None, None))
        assert (generation,) == cluster.rows("SELECT max(number) FROM generations")[0]
    return len([row for row in breakdowns if row[1]])


# --- generations --------------------------------------------------------------------------------------------


async def test_a_submission_is_in_the_next_generation_and_numbers_go_up_by_one(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        await prioritizer.run_once(NOW)
        jobs = await cluster.submit(builder.accepted(), builder.accepted(class_value=5), at=NOW)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [jobs[1], jobs[0]]
        await prioritizer.run_once(NOW + 2)
        assert generations(cluster) == [(1, 0, 0), (2, 2, 2), (3, 0, 2)]
        assert check_breakdowns(cluster) == 2


async def test_every_pass_is_said_on_the_bus(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster, connected(broker.url) as client:
        events = await client.connection.subscribe("rankd.v1.event.ranking")
        await client.connection.flush()
        await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW)
        event = msgspec.json.decode((await events.next_msg(PATIENCE_S)).data, type=RankingEvent)
        assert event == RankingEvent(generation=1, kind="full", at=NOW, new_jobs=1, jobs=1)


async def test_a_pass_without_changes_keeps_the_order(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        jobs = [builder.accepted(user, class_value=value) for value in range(20) for user in ("alice", "bob")]
        await cluster.submit(*jobs)
        await prioritizer.run_once(NOW)
        order = cluster.ranking()
        for later in range(1, 4):
            await prioritizer.run_once(NOW + later)
            assert cluster.ranking() == order


async def test_the_next_prioritizer_goes_on_where_the_last_one_stopped(broker, tmp_path):
    """Also: jobs that a generation holds are not new to the next prioritizer, later ones are."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        first = await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW)
        await cluster.prioritizer().run_once(NOW + 1)
        second = await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW + 2)
        assert cluster.ranking() == first + second
        assert generations(cluster) == [(1, 1, 1), (2, 0, 1), (3, 1, 2)]


async def test_old_generations_are_pruned_and_their_headers_kept(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted())
        for later in range(5):
            await prioritizer.run_once(NOW + later)
        assert len(generations(cluster)) == 5
        for table in STAGED:
            assert cluster.rows(f"SELECT DISTINCT generation FROM {table}") == [(5,)], table


async def test_only_the_newest_headers_are_kept(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(stored_generation, "HEADERS_KEPT", 3)
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        for later in range(6):
            await prioritizer.run_once(NOW + later)
            await cluster.submit(builder.accepted())
        assert [number for number, *_ in generations(cluster)] == [4, 5, 6]


async def test_what_a_crashed_pass_left_does_no_harm(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        jobs = await cluster.submit(builder.accepted(), builder.accepted(class_value=1))
        await cluster.prioritizer().run_once(NOW)
        order = cluster.ranking()
        leftover = {
            "ranking_chunks": "(2, 0, 1, '[1]', '00000000009')",
            "rank_chunks": "(2, 0, 1, '00000007')",
            "generation_values": "(2, 'fairshare', 1, 0.5)",
            "generation_numbers": "(2, 'weight.age', 77.0)",
        }
        for table, values in leftover.items():
            await cluster.database.write(lambda c, t=table, v=values: c.exec_driver_sql(f"INSERT INTO {t} VALUES {v}"))
        assert cluster.ranking() == order
        assert check_breakdowns(cluster) == 2
        await cluster.prioritizer().run_once(NOW + 1)
        assert cluster.ranking() == order == jobs[::-1]
        assert check_breakdowns(cluster) == 2


class Watched(SqliteDatabase):
    """Somebody looks after every transaction."""

    look = staticmethod(lambda: None)

    async def write(self, work, *, role=None):
        result = await super().write(work, role=role)
        self.look()
        return result


async def test_a_reader_in_the_middle_of_the_writing_sees_one_generation_whole(broker, tmp_path):
    """30,000 jobs take several transactions; who looks between them finds more rows, and sees none of them."""
    many, staged = 30_000, []
    async with a_cluster(tmp_path, broker.url, kind=Watched) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(*[builder.accepted(class_value=n % 7) for n in range(many)])
        await prioritizer.run_once(NOW)
        await cluster.act(job_action.cancel, *range(2, many, 50))
        cluster.database.look = lambda: staged.append(looked_at(cluster))
        await prioritizer.run_once(NOW + 1)
        before, after = many, many - len(range(2, many, 50))
        visible_from = [number for number, *_ in staged].index(2)
        assert visible_from > 2
        assert staged[:visible_from] == [(1, before, before)] * visible_from
        assert set(staged[visible_from:]) == {(2, after, after)}


class Busy(SqliteDatabase):
    """Something happens after every transaction of a pass, but for those in which no delta can be made."""

    meanwhile = None

    async def write(self, work, *, role=None):
        result = await super().write(work, role=role)
        if role is not None and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
            self.meanwhile = meanwhile
        return result


async def test_deltas_go_on_beside_a_full_pass_and_nothing_is_lost_from_sight(broker, tmp_path, monkeypatch):
    """While a pass is stored, jobs come and go; each change is visible at once, and still when the pass is."""
    # twenty jobs are stored in as many steps as otherwise ten thousand
    monkeypatch.setattr("rankd.store.record.generation.STAGE_ROWS", 4)
    monkeypatch.setattr("rankd.services.prioritizer.generation_writer.FEW", 1)
    async with a_cluster(tmp_path, broker.url, kind=Busy) as cluster:
        prioritizer = cluster.prioritizer()
        jobs = await cluster.submit(*[builder.accepted(class_value=n) for n in range(20)])
        await prioritizer.run_once(NOW)
        expected, better = jobs[::-1], itertools.count()

        async def meanwhile():
            if prioritizer._writer.lock.locked():
                return
            expected.insert(0, *await cluster.submit(builder.accepted(class_value=100 + next(better))))
            await cluster.act(job_action.cancel, expected.pop())
            while await prioritizer.insert_once(NOW):
                pass
            assert cluster.ranking() == expected

        cluster.database.meanwhile = meanwhile
        await prioritizer.run_once(NOW + 1)
        cluster.database.meanwhile = None
        assert len(set(expected) - set(jobs)) > 5
        assert cluster.ranking() == expected
        assert check_breakdowns(cluster) == len(expected)
        kinds = [kind for (kind,) in cluster.rows("SELECT kind FROM generation ORDER BY number")]
        assert kinds[:2] == ["full", "full"]
        assert set(kinds[2:]) == {"delta"}
        assert cluster.rows("SELECT base FROM generation ORDER BY number DESC LIMIT 1") == [(2,)]
        await prioritizer.run_once(NOW + 2)
        assert cluster.ranking() == expected


async def test_a_submission_makes_a_delta_generation_and_a_dependency_is_released_by_one(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster, connected(broker.url) as client:
        events = await client.connection.subscribe("rankd.v1.event.ranking")
        await client.connection.flush()
        prioritizer = cluster.prioritizer()
        await prioritizer.run_once(NOW)
        assert (await next_ranking(events)).kind == "full"
        [first] = await cluster.submit(builder.accepted())
        depends = {"depends_on": [Dependency(type="afterany", job=first)]}
        [second] = await cluster.submit(builder.accepted(request=depends))
        while await prioritizer.insert_once(NOW + 1):
            pass
        event = await next_ranking(events)
        assert (event.generation, event.kind, event.new_jobs, event.jobs) == (2, "delta", 1, 1)
        assert cluster.ranking() == [first]
        await cluster.act(job_action.cancel, first)
        while await prioritizer.insert_once(NOW + 2):
            pass
        assert cluster.ranking() == [second]
        assert check_breakdowns(cluster) == 1


async def test_what_a_delta_cannot_show_makes_a_full_pass_due(broker, tmp_path):
    """Nodes that come, room that is given, an association that is new."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW)
        await prioritizer.insert_once(NOW)
        assert not prioritizer._soon.is_set()
        await cluster.add_node("n1")
        await prioritizer.insert_once(NOW)
        assert prioritizer._soon.is_set()
        prioritizer._soon.clear()
        await prioritizer.run_once(NOW + 1)
        await scheduler.run_once(NOW + 1)
        await prioritizer.insert_once(NOW + 1)
        assert prioritizer._soon.is_set()
        prioritizer._soon.clear()
        await prioritizer.run_once(NOW + 2)
        await cluster.submit(builder.accepted("stranger", account="physics"))
        await prioritizer.insert_once(NOW + 2)
        assert prioritizer._soon.is_set()
        assert cluster.rows("""SELECT rank, fairshare FROM job_priority WHERE "user" = 'stranger'""") == [(1, 0.0)]


def looked_at(cluster) -> tuple[int, int, int]:
    """The generation that is visible, how many jobs its order has, and how many have a rank in it."""
    connection = sqlite3.connect(cluster.database.path, isolation_level=None)
    connection.execute("BEGIN")
    [(visible,)] = connection.execute("SELECT max(number) FROM generations")
    query = "SELECT count(DISTINCT job_id), min(rank), max(rank), min(generation), max(generation) FROM ranking"
    [(jobs, first, last, lowest, highest)] = connection.execute(query)
    assert (first, last, lowest, highest) == (1, jobs, visible, visible)
    chunks = connection.execute("SELECT ranks FROM rank_chunks WHERE generation = ?", (visible,)).fetchall()
    ranked = sum(int(text[at : at + 8]) > 0 for (text,) in chunks for at in range(0, len(text), 8))
    connection.close()
    return visible, jobs, ranked


# --- eligibility --------------------------------------------------------------------------------------------


async def test_a_begin_time_releases_a_job_when_it_comes(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        [job] = await cluster.submit(builder.accepted(request={"begin_at": NOW + 10}))
        await prioritizer.run_once(NOW + 1)
        assert (cluster.ranking(), prioritizer._pause(NOW + 8)) == ([], 2.0)
        assert cluster.rows("SELECT reason FROM job") == [("begin time",)]
        await prioritizer.run_once(NOW + 10)
        assert cluster.ranking() == [job]
        assert cluster.rows("SELECT eligible_at FROM jobs") == [(NOW + 10,)]
        assert generations(cluster)[-1] == (2, 1, 1)


async def test_dependencies_release_their_jobs_and_unmet_ones_never_do(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.add_node("n1")
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        [first] = await cluster.submit(builder.accepted())
        kinds = ("afterok", "afternotok", "afterany", "after")
        waiting = [builder.accepted(request={"depends_on": [Dependency(type=kind, job=first)]}) for kind in kinds]
        unknown = builder.accepted(request={"depends_on": [Dependency(type="afterany", job=99)]})
        ok, notok, any_, after, never = await cluster.submit(*waiting, unknown)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [first]
        await scheduler.run_once(NOW + 1)
        started = Report(allocation=1, job=first, kind="started", at=NOW + 2)
        await cluster.report(("n1", started))
        await prioritizer.run_once(NOW + 3)
        assert cluster.ranking() == [after]
        await cluster.end(first, at=NOW + 4)
        await prioritizer.run_once(NOW + 5)
        assert sorted(cluster.ranking()) == [ok, any_, after]
        assert cluster.rows("SELECT id, reason, reason_fact FROM job WHERE reason IS NOT NULL") == [
            (notok, "dependency never satisfied", f"afternotok of job {first} (completed)"),
            (never, "dependency", "afterany of job 99 (not known)"),
        ]


async def test_the_unmet_ones_of_several_dependencies_are_named(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        first, second = await cluster.submit(builder.accepted(), builder.accepted())
        of = [("after", first), ("afterok", first), ("afterany", second), ("afternotok", second)]
        depends = {"depends_on": [Dependency(type=kind, job=job) for kind, job in of]}
        [job] = await cluster.submit(builder.accepted(request=depends))
        fact = "SELECT reason_fact FROM job WHERE id = ?"
        waits = [f"{kind} of job {other} (pending)" for kind, other in of]
        assert cluster.rows(fact, job) == [("; ".join(waits),)]
        await prioritizer.run_once(NOW)
        assert await scheduler.run_once(NOW)
        await cluster.report(("n1", Report(allocation=1, job=first, kind="started", at=NOW + 1)))
        waits = [f"afterok of job {first} (running)", *waits[2:]]
        assert cluster.rows(fact, job) == [("; ".join(waits),)]
        await cluster.end(first, at=NOW + 2)
        await cluster.act(job_action.cancel, second)
        assert cluster.rows(fact, job) == [(None,)]


async def test_a_held_job_whose_dependency_is_met_waits_for_its_release(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        [first] = await cluster.submit(builder.accepted())
        depends = {"depends_on": [Dependency(type="afternotok", job=first)]}
        [held] = await cluster.submit(builder.accepted(held=True, request=depends))
        await cluster.act(job_action.cancel, first)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == []
        await cluster.act(job_action.release, held, at=NOW + 2)
        await prioritizer.run_once(NOW + 3)
        assert cluster.ranking() == [held]


async def test_a_job_whose_dependency_is_met_waits_for_its_begin_time_and_says_so(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        [first] = await cluster.submit(builder.accepted())
        both = {"depends_on": [Dependency(type="afternotok", job=first)], "begin_at": NOW + 100}
        [job] = await cluster.submit(builder.accepted(request=both))
        await prioritizer.run_once(NOW + 1)
        reason = "SELECT reason, reason_fact FROM job WHERE id = ?"
        assert cluster.rows(reason, job) == [("dependency", f"afternotok of job {first} (pending)")]
        await cluster.act(job_action.cancel, first)
        await prioritizer.run_once(NOW + 2)
        assert cluster.rows(reason, job) == [("begin time", f"not before {shown_instant(NOW + 100)}")]
        await prioritizer.run_once(NOW + 100)
        assert cluster.ranking() == [job]
        assert cluster.rows("SELECT event FROM job_event WHERE job_id = ?", job) == [("submit",), ("eligible",)]


# --- factors ------------------------------------------------------------------------------------------------

BROKEN = """
from pathlib import Path
import numpy as np
from rankd.core.ranking.factor import Per
def check():
    if Path(__file__).with_name("broken").exists(): raise RuntimeError("out of order")
class Broken:
    name, per, lowest, highest = "broken", Per.JOB, 0.0, 1.0
    def __init__(self, settings): pass
    def values(self, context):
        check()
        return np.where(context.jobs.ids % 2 == 0, 1.0, 0.25)
    def sql(self): return None
    def parameters(self): return {}
class BrokenFormula(Broken):
    name = "formula"
    def values(self, context):
        check()
        return np.minimum(1.0, (context.now - context.jobs.submitted_at) / 1000.0)
    def sql(self): return "min(1.0, ({ranked_at} - {submitted_at}) / 1000.0)"
"""


@pytest.fixture
def broken(install):
    """A third party's package, installed beside rankd; returns the file that breaks it while it is there."""
    package = install(
        "stranger", BROKEN, "[rankd.factors]\nbroken = stranger:Broken\nformula = stranger:BrokenFormula\n"
    )
    return package / "broken"


async def test_a_factor_that_raises_keeps_its_last_good_values_and_everyone_is_ranked(broker, tmp_path, broken):
    used = configuration(weights={"broken": 100.0, "user": 10.0})
    async with a_cluster(tmp_path, broker.url, used) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted(), builder.accepted())
        await prioritizer.run_once(NOW)
        good = cluster.rows("SELECT id, broken, broken_points FROM job_priority ORDER BY id")
        assert good == [(1, 0.25, 25.0), (2, 1.0, 100.0)]
        broken.touch()
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW + 1)
        assert cluster.rows("SELECT id, broken, broken_points FROM job_priority ORDER BY id") == [*good, (3, 0.0, 0.0)]
        assert cluster.ranking() == [2, 1, 3]
        assert check_breakdowns(cluster) == 3
        [(failures,)] = cluster.rows("SELECT failures FROM generations WHERE number = 2")
        assert "RuntimeError: out of order" in json.loads(failures)["broken"]
        broken.unlink()
        await prioritizer.run_once(NOW + 2)
        assert cluster.rows("SELECT failures FROM generations WHERE number = 3") == [("{}",)]
        assert cluster.rows("SELECT broken FROM job_priority WHERE id = 3") == [(0.25,)]


async def test_a_formula_whose_factor_failed_is_not_computed_by_the_view_either(broker, tmp_path, broken):
    """What the view shows and what the ranking used are the same numbers, also when a factor fails."""
    used = configuration(weights={"formula": 1000.0})
    async with a_cluster(tmp_path, broker.url, used) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW + 500)
        broken.touch()
        await prioritizer.run_once(NOW + 900)
        assert cluster.rows("SELECT formula, priority FROM job_priority") == [(0.5, 500)]
        assert check_breakdowns(cluster) == 1
        broken.unlink()
        await prioritizer.run_once(NOW + 950)
        assert cluster.rows("SELECT formula, priority FROM job_priority") == [(0.95, 950)]
        assert check_breakdowns(cluster) == 1


async def test_views_have_the_factors_of_the_present_configuration(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW)
        before = columns_of(cluster)
        fewer = configuration(weights={"user": 3.0, "age": 2.0})
        await cluster.prioritizer(fewer).run_once(NOW + 1)
        gone = {"fairshare", "size", *(f"{name}_points" for name in ("fairshare", "size", "qos", "queue"))}
        assert gone <= before
        assert not gone & columns_of(cluster)
        assert cluster.rows("SELECT factor, weight FROM job_factor") == [("user", 3.0), ("age", 2.0)]
        assert check_breakdowns(cluster) == 1
        await cluster.prioritizer().run_once(NOW + 2)
        assert columns_of(cluster) == before


def columns_of(cluster) -> set[str]:
    return {row[1] for row in cluster.rows("PRAGMA table_info(job_priority)")}


# --- usage --------------------------------------------------------------------------------------------------


async def test_who_uses_much_falls_behind(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        await cluster.add_node("n1")
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.submit(builder.accepted("alice"))
        await prioritizer.run_once(NOW)
        await scheduler.run_once(NOW)
        await cluster.submit(builder.accepted("alice"), builder.accepted("bob"))
        await prioritizer.run_once(NOW + 100)
        assert cluster.ranking() == [3, 2]
        shares = dict(cluster.rows("""SELECT "user", usage FROM association_share WHERE account = 'physics'"""))
        assert shares["alice"] == pytest.approx(charged(1.0, NOW, None, NOW + 100), rel=1e-12)
        assert (shares["bob"], shares[None]) == (0.0, shares["alice"])


def charged(rate: float, since: float, until: float | None, now: float) -> float:
    """The integral of rate * 2^(-(now - t) / half-life) from ``since`` to ``until``; 0 for an end before the start."""
    last = now if until is None else max(since, min(until, now))
    scale = HALF_LIFE_S / math.log(2)
    return rate * scale * (2 ** (-(now - last) / HALF_LIFE_S) - 2 ** (-(now - since) / HALF_LIFE_S))


def recomputed(cluster, now: float) -> dict[str, float]:
    usage: dict[str, float] = {}
    query = 'SELECT "user", charge_rate, allocated_at, ended_at FROM allocation'
    for user, rate, since, until in cluster.rows(query):
        usage[user] = usage.get(user, 0.0) + charged(rate, since, until, now)
    return usage


async def test_usage_equals_its_recomputation_from_the_allocations_after_many_passes_and_restarts(broker, tmp_path):
    random = np.random.default_rng(7)
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        await cluster.add_node("n1", vcore=8)
        now, running_jobs = NOW, []
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for step in range(60):
            now += float(random.exponential(HALF_LIFE_S / 20))
            users = random.choice(["alice", "bob"], size=random.integers(0, 3))
            running_jobs += await cluster.submit(*[builder.accepted(str(user)) for user in users], at=now)
            await prioritizer.run_once(now)
            await scheduler.run_once(now)
            started = [job for job in running_jobs if cluster.states()[job] == "allocated"]
            for job in started[: random.integers(0, 4)]:
                await cluster.end(job, at=now + float(random.uniform(-1, 1)))
                running_jobs.remove(job)
            if step % 20 == 19:
                prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
            if step % 10 == 9:
                now += 1.0
                await prioritizer.run_once(now)
                shown = cluster.rows("""SELECT "user", usage FROM association_share WHERE "user" IS NOT NULL""")
                assert dict(shown) == pytest.approx(recomputed(cluster, now), rel=1e-9)
        assert cluster.rows("SELECT count(*) > 10 FROM allocations WHERE charged = 1") == [(1,)]
        settled = cluster.rows("""SELECT min(usage) > 0 FROM associations WHERE "user" <> ''""")
        assert settled == [(1,)]


async def test_a_job_that_ended_on_a_faster_clock_is_charged_whole(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        await cluster.add_node("n1")
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted("alice"))
        await prioritizer.run_once(NOW)
        await cluster.scheduler().run_once(NOW)
        await cluster.end(1, at=NOW + 100)
        for later in (10, 50, 200):
            await prioritizer.run_once(NOW + later)
        [(usage,)] = cluster.rows("""SELECT usage FROM association_share WHERE "user" = 'alice'""")
        assert usage == pytest.approx(charged(1.0, NOW, NOW + 100, NOW + 200), rel=1e-12)


async def test_a_clock_that_steps_back_makes_nothing_decay_twice(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        await cluster.add_node("n1")
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for start in (0, 500):
            await cluster.submit(builder.accepted("alice"), at=NOW + start)
            await prioritizer.run_once(NOW + start)
            await scheduler.run_once(NOW + start)
        await cluster.end(1, at=NOW + 600)
        await prioritizer.run_once(NOW + 1000)
        await cluster.end(2, at=NOW + 550)
        await prioritizer.run_once(NOW + 700)
        await prioritizer.run_once(NOW + 1000)
        [(usage,)] = cluster.rows("""SELECT usage FROM association_share WHERE "user" = 'alice'""")
        most = recomputed(cluster, NOW + 700)["alice"]
        assert recomputed(cluster, NOW + 1000)["alice"] * (1 - 1e-9) <= usage <= most


# --- the loop -----------------------------------------------------------------------------------------------


def options_of(broker, tmp_path, **settings) -> PrioritizerOptions:
    config = write_config(tmp_path / "config", **settings)
    return PrioritizerOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=config)


async def next_ranking(events) -> RankingEvent:
    return msgspec.json.decode((await events.next_msg(PATIENCE_S)).data, type=RankingEvent)


async def test_hints_without_news_start_no_pass(broker, tmp_path):
    """Heartbeats, starts and the like wake everyone; a pass comes when its period is over, and no sooner."""
    period_s = 0.5
    async with connected(broker.url) as client, running(run, options_of(broker, tmp_path, period_s=str(period_s))):
        events = await client.connection.subscribe("rankd.v1.event.ranking")
        first = await next_ranking(events)
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(hints(client, enough))
            later = [await next_ranking(events) for _ in range(3)]
            enough.set()
    assert [event.generation for event in later] == [first.generation + n for n in (1, 2, 3)]
    instants = [event.at for event in [first, *later]]
    assert min(np.diff(instants)) >= period_s - 0.01


async def hints(client, enough: asyncio.Event) -> None:
    """Ended by an event: a cancellation that meets the flush's answer is lost on Python 3.11."""
    while not enough.is_set():
        await client.connection.publish("rankd.v1.internal.committed", b"{}")
        await client.connection.flush()


@pytest.mark.parametrize("hint", [True, False])
async def test_news_start_a_pass_at_once_and_without_a_hint_soon(broker, tmp_path, hint):
    options = options_of(broker, tmp_path, period_s="3600")
    async with a_cluster_without_roles(tmp_path, broker) as cluster, connected(broker.url) as client:
        events = await client.connection.subscribe("rankd.v1.event.ranking")
        async with running(run, options):
            assert (await next_ranking(events)).jobs == 0
            await cluster.submit(builder.accepted())
            if hint:
                await client.connection.publish("rankd.v1.internal.committed", b"{}")
            assert (await next_ranking(events)).new_jobs == 1
            registration = NodeRegistration(resources={"vcore": 1}, agent="n1")
            await cluster.database.write(lambda c: register_node(c, "n1", registration, NOW))
            if hint:
                await client.connection.publish("rankd.v1.internal.committed", b"{}")
            assert (await next_ranking(events)).new_jobs == 0


def a_cluster_without_roles(tmp_path, broker):
    return a_cluster(tmp_path, broker.url, roles=())


async def test_it_is_ready_once_a_generation_is_visible(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster, Bus(broker.url, "probe") as bus:
        prioritizer = cluster.prioritizer()
        with pytest.raises(Unavailable):
            await prioritizer.healthy()
        await prioritizer.run_once(NOW)
        assert (await prioritizer.healthy()).startswith("generation 1,")
        with pytest.raises(Unavailable):
            await ask_health(bus, "prioritizer", timeout_s=0.5)


async def test_a_strangers_broken_factor_does_not_stop_the_real_service(broker, tmp_path, monkeypatch, broken):
    monkeypatch.setenv("PYTHONPATH", str(broken.parent), prepend=":")
    options = options_of(broker, tmp_path)
    broken.touch()
    words = ("prioritizer", "--weight", "broken=50")
    async with a_cluster_without_roles(tmp_path, broker) as cluster, connected(broker.url) as client:
        await cluster.submit(builder.accepted())
        async with process(*words, nats=options.nats, db=options.db, config=options.config) as service:
            await client.until(lambda: cluster.rows("SELECT 1 FROM generations WHERE number > 1"))
            assert service.returncode is None
        assert cluster.ranking() == [1]
        query = "SELECT DISTINCT json_extract(failures, '$.broken') LIKE '%out of order%' FROM generations"
        assert cluster.rows(query) == [(1,)]


async def test_a_job_is_ranked_though_its_qos_came_with_a_configuration_that_no_pass_has_adopted(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        await prioritizer.run_once(NOW)
        later = builder.configuration(qos=[*cluster.configuration.settings.qos, Qos(name="new", priority=5)])
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, later, NOW))
        [job] = await cluster.submit(builder.accepted(qos="new"))
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [job]


async def test_a_job_of_a_new_application_that_a_full_pass_reads_is_shown_by_a_delta_meanwhile(broker, tmp_path):
    """Before, the delta did not know the application, and the prioritizer ended."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted(request={"application": "known"}))
        await prioritizer.run_once(NOW)
        new = [builder.accepted(request={"application": name}) for name in ("new", "newer")]
        jobs = await cluster.submit(*new, at=NOW + 1)
        await prioritizer._full_passes._read(NOW + 2)  # the pass has begun, and the newest generation is the last one
        while (await prioritizer._delta_passes.run_once(NOW + 2)).may_have_more:
            pass
        assert cluster.ranking() == [1, *jobs]
