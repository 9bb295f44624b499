"""The view equals the ranking: what SQL shows of a generation are the numbers that the pass used, bit for bit.

Everything is real: an SQLite file or a PostgreSQL server, its migration, the catalog, submissions, the prioritizer's
own pass and its staged commit. Only the broker is missing, which a pass does without.
"""

import asyncio
import json
import math
import os
import random
import tempfile
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from builder import NOW, accepted, configuration, leaf, new_database, parent
from contract.engine import ENGINES, Sqlite
from contract.world import migrate
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rankd.bus.connection import Bus
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_change import Change
from rankd.core.model.association import Association
from rankd.core.model.job import Event, State
from rankd.core.model.node import NodeState
from rankd.core.model.queue import Partition, QueueProperties
from rankd.core.model.setting import FairshareSettings, PrioritySettings, Qos
from rankd.core.ranking.factor import FactorContext, Per
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN, compute_priorities
from rankd.core.ranking.ranking import rank
from rankd.mirror import staged_order
from rankd.mirror.job_table import merged
from rankd.mirror.leaf_orders import LeafOrders
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.service import ConfiguredFactors, Prioritizer
from rankd.services.runtime.configuration_follower import Prepared
from rankd.services.runtime.service_configuration import NumberedConfiguration
from rankd.services.scheduler.outbox import BusOutbox
from rankd.services.scheduler.scheduler import Scheduler
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.last_id import set_last_id
from rankd.store.engine.reading import open_for_reading
from rankd.store.feed.order import newest_generation, read_delta, read_leaves
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.job import NewJob, apply_changes, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.record.node import register_node, set_state
from rankd.store.record.report import take_reports
from rankd.store.schema.view import FactorColumn, factor_views
from rankd.wire.message import NodeRegistration, Report

LEAVES = [("default", "root.a"), ("default", "root.b.x"), ("default", "root.b.y"), ("gpu", "root.a")]
USERS = [("physics", "alice"), ("physics", "bob"), ("lab", "carol"), ("root", "dora")]
RANKD = Submitter("root", privileged=True)
HOME = "home"
"""A node that is up, outside of all partitions: what starts there changes no totals."""

OWN_COLUMNS = ("queue", "qos", "user")
"""Factors whose value's column would hide one of the job's: they have ``_factor`` behind their names."""


def current_state(source, connection):
    """What a prioritizer's memory makes of the records as they are now."""
    if not source.jobs.is_loaded:
        source.load(connection)
    source.read_changes(connection)
    source.read_groups(connection)
    snapshot = source.jobs.snapshot()
    return source.adopt(snapshot, merged(snapshot))


class Luck:
    """A plugin's factor that is truly per job: no formula in SQL, hence stored as rows."""

    name = "luck"
    per = Per.JOB
    lowest = -1.0
    highest = 1.0

    def values(self, context):
        return np.sin(context.jobs.ids.astype(float))

    def sql(self):
        return None

    def parameters(self):
        return {}


# --- what is drawn ------------------------------------------------------------------------------------------

WEIGHTS = st.one_of(
    st.sampled_from([0.0, 0.1, -0.1, 1000.0, -5000.0, 1e15, -1e15, 1 / 3, 1e-9, 123456.789]), st.floats(-1e6, 1e6)
)
NAMES = ["age", "fairshare", "qos", "queue", "size", "user", "luck"]
INT32 = st.one_of(st.just(0), st.integers(-100, 100), st.sampled_from([INT32_MIN, INT32_MAX]))


@st.composite
def priority_settings(draw):
    chosen = draw(st.permutations(NAMES).map(list))[: draw(st.integers(1, len(NAMES)))]
    return PrioritySettings(
        policy=draw(st.sampled_from(["multifactor", "multifactor", "multifactor", "class", "fcfs"])),
        max_age_s=draw(st.sampled_from([604800.0, 0.1, 1e4])),
        favor=draw(st.sampled_from(["large", "small"])),
        size_relative_to_time=draw(st.booleans()),
        weights={name: draw(WEIGHTS) for name in chosen},
        fairshare=FairshareSettings(
            algorithm=draw(st.sampled_from(["fair_tree", "classic"])),
            dampening=draw(st.sampled_from([1.0, 0.3, 7.0])),
            half_life_s=draw(st.sampled_from([604800.0, 3600.0, None])),
        ),
    )


@st.composite
def queue_properties(draw):
    return QueueProperties(
        priority_policy=draw(st.sampled_from(["default", "fence"])),
        priority_offset=draw(INT32),
        sort_priority=draw(st.booleans()),
        priority_factor=draw(st.one_of(st.none(), st.sampled_from([0.0, 1.0, 3.0]), st.floats(0, 1e6))),
    )


@st.composite
def configurations(draw):
    def queue(path, *queues):
        fields = {"properties": draw(queue_properties()), "max": draw(st.sampled_from([{}, {"vcore": 9000}]))}
        return parent(path, *queues, **fields) if queues else leaf(path, **fields)

    first = queue("root", queue("root.a"), queue("root.b", queue("root.b.x"), queue("root.b.y")))
    partitions = (Partition(root=first), Partition(name="gpu", root=queue("root", queue("root.a"))))
    shares, usage = st.sampled_from([1.0, 0.0, 3.0, "parent"]), st.one_of(st.just(0.0), st.floats(0, 1e9))
    users = [
        Association(account=account, user=user, shares=draw(shares), usage=draw(usage), usage_at=NOW - 5000)
        for account, user in USERS
    ]
    accounts = [Association(account=name, shares=draw(shares)) for name in ("physics", "lab")]
    factors = st.one_of(st.none(), st.floats(0, 1))
    qos = [Qos(name=name, priority=draw(st.integers(0, 7)), factor=draw(factors)) for name in ("normal", "high", "low")]
    return configuration(
        partitions=partitions, associations=[*accounts, *users], priority=draw(priority_settings()), qos=qos
    )


@st.composite
def submissions(draw, max_size=9):
    """(accepted job, when) in the order of submission."""
    jobs = []
    for back in sorted(draw(st.lists(st.floats(1, 1e6), max_size=max_size)), reverse=True):
        (account, user), (partition, queue) = draw(st.sampled_from(USERS)), draw(st.sampled_from(LEAVES))
        vcore = draw(st.one_of(st.integers(0, 64_000), st.sampled_from([0, 500])))
        request = {
            "time_limit_s": draw(st.one_of(st.none(), st.floats(0.001, 1e7))),
            "begin_at": draw(st.sampled_from([None, None, NOW - 5, NOW + 1e5])),
            "application": draw(st.sampled_from([None, None, "one", "two"])),
            "depends_on": draw(st.sampled_from([[], [], [{"type": "afterany", "job": 1}]])),
        }
        job = accepted(
            user, account=account, partition=partition, queue=queue, class_value=draw(INT32),
            qos=draw(st.sampled_from(["normal", "high", "low"])), urgency=draw(st.integers(0, 31)),
            held=draw(st.sampled_from([False, False, True])), nodes=draw(st.integers(1, 12)),
            resources={"vcore": vcore} if vcore else {}, request=request,
        )  # fmt: skip
        jobs.append((job, NOW - back))
    return jobs


@st.composite
def changes(draw):
    """(what, to which of the jobs by place, argument)."""
    kinds = st.sampled_from(["hold", "release", "cancel", "fix", "unfix", "urgency", "start", "end", "run"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 20), INT32), max_size=8))


NODES = st.lists(st.tuples(st.sampled_from(["default", "gpu"]), st.sampled_from(list(NodeState))), max_size=5)


# --- what is done -------------------------------------------------------------------------------------------


class Cluster:
    """A database and its prioritizer."""

    def __init__(self, database, config):
        self.database = database
        self.config = config
        self.ids = []
        self.orders = LeafOrders()
        self.meanwhile = []
        """What happens, one after the other, while a full generation is staged and not visible yet: (changes, now)."""
        self.parts = 0
        """So many parts of it the scheduler takes in after each."""

    async def set_up(self, nodes, first_id):
        await self.database.take_role("prioritizer", NOW)
        self.catalog = await self.database.write(lambda c: sync_catalog(c, self.config, NOW))
        await self.database.write(lambda c: self._prepare(c, nodes, first_id))
        self.start_prioritizer()
        self.scheduler = self.new_scheduler()

    def start_prioritizer(self):
        bus = Bus("nats://127.0.0.1:1", "test")  # never connected: a pass does not need it
        self.prioritizer = Prioritizer(without_luck(self.config), self.new_source(), self.database, bus)
        own = self.prioritizer.factors
        own.settings = self.config.settings.priority
        own.configured = own.used = self.factors()
        self.prioritizer._writer._when_staged = self.go_ahead

    async def reload(self, config, *, restarts):
        """Another configuration, taken up as services do that start with it, or that go on."""
        self.config = config
        self.catalog = await self.database.write(lambda c: sync_catalog(c, config, NOW))
        if restarts:
            self.start_prioritizer()
            self.scheduler = self.new_scheduler()
        else:
            self.prioritizer.follower.prepared = Prepared(None, ConfiguredFactors(config, self.factors()))
            await self.scheduler.follower.prepare(NumberedConfiguration(None, self.patient()))

    def patient(self):
        """The configuration for a scheduler that takes no generation for overdue."""
        scheduling = replace(self.config.settings.scheduling, stale_after_s=1e12)
        return replace(self.config, settings=replace(self.config.settings, scheduling=scheduling))

    def new_scheduler(self):
        config = self.patient()
        source = SchedulingSource(config, self.catalog)
        outbox = BusOutbox(Bus("nats://127.0.0.1:1", "test"), "scheduler")
        return Scheduler(config, source, self.database, outbox)

    def new_source(self):
        return RankingSource(self.config, self.catalog)

    def factors(self):
        from rankd.config.plugin import load_factor

        weights = self.config.settings.priority.weights
        return [Luck() if name == "luck" else load_factor(name, self.config.settings.priority) for name in weights]

    @staticmethod
    def _prepare(connection, nodes, first_id):
        set_last_id(connection, "jobs", first_id - 1)
        register_node(connection, HOME, NodeRegistration(partition="none", resources={}, agent="a"), NOW)
        for place, (partition, state) in enumerate(nodes):
            given = NodeRegistration(partition=partition, resources={"vcore": 4 + place**2, "memory": "8Gi"}, agent="a")
            register_node(connection, f"n{place}", given, NOW)
            set_state(connection, f"n{place}", state, NOW, "test")

    async def submit(self, jobs):
        for job, at in jobs:
            new = [NewJob(accepted=job, actor=job.user, at=at)]
            self.ids += await self.database.write(lambda c, new=new: insert_jobs(c, new, self.catalog))

    async def change(self, todo, now):
        for kind, place, argument in todo:
            if self.ids:
                job = self.ids[place % len(self.ids)]
                await self.database.write(lambda c, k=kind, j=job, a=argument: change_job(c, k, j, a, now))

    async def rank(self, now):
        """One pass; afterwards the state that it saw and what came out."""
        self.ranking = await self.prioritizer.run_once(now)
        return self.prioritizer._source.state, self.ranking

    async def go_ahead(self):
        """The scheduler takes a part of a staged generation in, then something happens, and so on."""
        source = self.scheduler._source
        if not source.is_loaded:
            return
        for todo, now in [([], NOW), *self.meanwhile]:
            await self.change(todo, now)
            await self.database.read(lambda c, now=now: source.refresh(c, now))
            for _ in range(self.parts):
                await self.database.read(lambda c, now=now: source.prepare_staged(c, now))

    async def take_in(self, now):
        """Delta generations, until there is nothing left; afterwards what they must show."""
        while await self.prioritizer.insert_once(now):
            pass
        return await self.shown_by_delta()

    async def check_leaves(self, ranking):
        """What the scheduler reads, by leaf: incrementally as always, and from the beginning."""
        anew, queues = LeafOrders(), dict(await self.database.read(queues_of_jobs))
        for orders in (self.orders, anew):
            await self.database.read(lambda c, orders=orders: follow_order(c, orders))
            wanted = {}
            for job in ranking.ids.tolist():
                wanted.setdefault(queues[job], []).append(job)
            assert {queue: orders.leaf(queue).ids.tolist() for queue in wanted} == wanted
            assert all(not len(orders.leaf(queue).ids) for queue in orders.queues() - wanted.keys())
            places = {job: place for place, job in enumerate(ranking.ids.tolist(), start=1)}
            assert orders.ranks({job: queues[job] for job in places}) == places

    async def check_decisions(self, now):
        """What the scheduler would decide: knowing what it has seen before, and from the beginning."""
        decided = []
        for scheduler in (self.scheduler, self.new_scheduler()):
            await scheduler.follower.adopt(scheduler._use_configuration)
            source = scheduler._source
            if not source.is_loaded:
                await self.database.read(source.load)
            source.triggers.add("looked at")
            await self.database.read(lambda c, source=source: source.refresh(c, now))
            decided.append(scheduler._decider.decide(now))
        assert decided[0] == decided[1]

    async def shown_by_delta(self):
        """All jobs as they are, at the instant and with the groups of the full pass, in the order of the delta."""
        live = self.prioritizer._writer.live
        state = await self.database.read(partial(current_state, self.new_source()))
        context = FactorContext(now=live.ranked_at, jobs=state.jobs, groups=self.ranking.groups)
        passed = compute_priorities(context, self.config.settings.priority, self.factors())
        rows = live._tally._rows
        queues = tuple(rows[row.id] for row in self.ranking.queues)
        ids = np.array(merged_ids(live._delta), dtype=np.int64)
        return state, replace(self.ranking, ids=ids, priorities=passed, queues=queues)


def follow_order(connection, orders):
    newest = newest_generation(connection)
    if newest.base != orders.base:
        orders.begin(newest.base, read_leaves(connection, newest.base))
    orders.follow(newest, read_delta(connection, newest.base, orders.followed))


def queues_of_jobs(connection):
    return [tuple(row) for row in connection.exec_driver_sql("SELECT id, queue_id FROM jobs")]


def merged_ids(delta):
    """The order of a full pass with a delta's entries done to it, from their definition."""
    entries, listed = delta.entries(), []
    removed = set((-entries.positions[entries.positions < 0]).tolist())
    for rank_, job in enumerate([*delta.base.ids.tolist(), None], start=1):
        listed += entries.ids[entries.positions == rank_].tolist()
        if job is not None and rank_ not in removed:
            listed.append(job)
    return listed


def without_luck(config):
    """The plugin is not installed: it is put in by hand."""
    weights = {name: weight for name, weight in config.settings.priority.weights.items() if name != "luck"}
    priority = replace(config.settings.priority, weights=weights)
    return replace(config, settings=replace(config.settings, priority=priority))


def change_job(connection, kind, job, argument, now):
    decisions = {"hold": hold, "release": release, "cancel": cancel}
    state, revision, allocation = connection.exec_driver_sql(
        "SELECT state, revision, allocation_id FROM jobs WHERE id = ?", (job,)
    ).one()
    updates = {"fix": {"fixed_priority": argument, "fixed_by": "root"}, "urgency": {"urgency": abs(argument) % 32}}
    if kind == "run":
        change_job(connection, "start", job, argument, now)
        change_job(connection, "end", job, argument, now)
    elif kind in decisions:
        act(connection, [job], RANKD, now, decisions[kind])
    elif kind == "start" and state == State.PENDING:
        placement = NewAllocation(
            job=job, revision=revision, nodes=(HOME,), resources={"vcore": 500}, charge_rate=0.7, generation=1, rank=1
        )
        commit_allocations(connection, [placement], 1, now - 3)
    elif kind == "end" and allocation is not None:
        at = now + abs(argument) % 60  # the node's clock may be ahead
        report = Report(allocation=allocation, job=job, kind="ended", at=at, exit_status=0)
        take_reports(connection, [(HOME, report)], 3, now)
    elif state == State.PENDING and kind in ("fix", "unfix", "urgency"):
        columns = updates.get(kind, {"fixed_priority": None, "fixed_by": None})
        update = Change(job=job, state=State.PENDING, event=Event.UPDATE, actor="root", columns=columns)
        apply_changes(connection, [update], now)


ENGINE = [Sqlite()]
"""The engine of the tests that run now. Examples of a property can't get it from a fixture of their own."""
EXAMPLES = Counter()
FEW = 2
"""So many examples of a property run on a server: each takes ten times as long as on a file."""


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name, scope="module", autouse=True)
def engine(request):
    """Every test runs once per engine."""
    ENGINE[0] = request.param
    return request.param


def run(config, nodes, first_id, story):
    test = os.environ["PYTEST_CURRENT_TEST"]
    EXAMPLES[test] += 1
    if ENGINE[0].name != "sqlite" and EXAMPLES[test] > FEW:
        return
    with tempfile.TemporaryDirectory() as directory:

        async def run_story():
            async with ENGINE[0].open_copy(migrate, Path(directory)) as database:
                cluster = Cluster(database, config)
                await cluster.set_up(nodes, first_id)
                await story(cluster)

        asyncio.run(run_story())


# --- what is compared ---------------------------------------------------------------------------------------


def rows_of(database, query):
    """As any SQL client sees them."""
    is_file = database.url == str(database.path)
    with closing(open_for_reading(database.path if is_file else database.url)) as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def expected_rows(config, state, ranking):
    """By job id: what the pass used, as columns of ``job_priority``."""
    jobs, passed = state.jobs, ranking.priorities
    ranks = {job: place for place, job in enumerate(ranking.ids.tolist(), start=1)}
    rows = {}
    for place, job in enumerate(jobs.ids.tolist()):
        row = {"class_value": int(jobs.class_values[place])}
        for factor in passed.factors:
            value = float(factor.of_jobs(jobs)[place])
            row[f"{factor.name}_factor" if factor.name in OWN_COLUMNS else factor.name] = value
            row[f"{factor.name}_points"] = value * factor.weight
        fixed = float(jobs.fixed_priorities[place])
        row["points_sum"] = float(passed.points_sums[place])
        row["priority"] = int(passed.priorities[place])
        row["rank"] = ranks.get(job)
        row["override"] = override(config.settings.priority.policy, int(jobs.urgencies[place]), fixed)
        row["override_by"] = "root" if row["override"] == "fixed" else None
        row["ranked_at"] = ranking.now
        rows[job] = row
    return rows


def override(policy, urgency, fixed):
    if urgency == 31:
        return "expedited"
    if fixed == fixed:  # noqa: PLR0124 - NaN is not set
        return "fixed"
    return None if policy == "multifactor" else policy


def check(cluster, state, ranking):
    """Every row and every view of the generation that has just become visible."""
    path, expected = cluster.database, expected_rows(cluster.config, state, ranking)
    shown = {row["id"]: row for row in rows_of(path, "SELECT * FROM job_priority")}
    assert {job: {name: shown[job][name] for name in row} for job, row in expected.items()} == expected
    assert set(shown) == set(expected)
    for row in shown.values():
        check_sum(row)
    ranked = [(place, job, int(expected[job]["priority"])) for place, job in enumerate(ranking.ids.tolist(), start=1)]
    assert [
        (r["rank"], r["job_id"], r["priority"]) for r in rows_of(path, "SELECT * FROM ranking ORDER BY rank")
    ] == ranked
    head = rows_of(path, "SELECT * FROM queue_head ORDER BY rank")
    assert head == [shown[job] for _, job, _ in ranked]
    check_factors(cluster, shown)
    check_queues(cluster, ranking)
    check_associations(cluster, ranking)


def check_sum(row):
    if row["override"] is None:
        assert max(INT32_MIN, min(INT32_MAX, row["class_value"] + int(row["points_sum"]))) == row["priority"]


def check_factors(cluster, shown):
    weights = cluster.config.settings.priority.weights
    listed = rows_of(cluster.database, "SELECT job_id, factor, value, weight, points FROM job_factor")
    assert {(r["job_id"], r["factor"]): (r["value"], r["weight"], r["points"]) for r in listed} == {
        (job, name): (row[f"{name}_factor" if name in OWN_COLUMNS else name], weight, row[f"{name}_points"])
        for job, row in shown.items()
        for name, weight in weights.items()
    }
    assert len(listed) == len(shown) * len(weights)


def check_queues(cluster, ranking):
    ids = {id_: key for key, id_ in cluster.catalog.queues.items()}
    expected = {
        ids[row.id]: (row.priority, row.share, row.pending_jobs, in_cores(row.pending), in_cores(row.used))
        for row in ranking.queues
    }
    rows = rows_of(cluster.database, "SELECT * FROM queue_priority")
    assert expected == {
        (row["partition"], row["path"]): (
            row["priority"], row["share"], row["pending_jobs"], json.loads(row["pending"]), json.loads(row["allocated"])
        )
        for row in rows
    }  # fmt: skip


def in_cores(resources):
    return {kind: amount / 1000 if kind == "vcore" else amount for kind, amount in resources.items()}


def check_associations(cluster, ranking):
    result, tree = ranking.fairshare, cluster.prioritizer._source.associations.tree
    rows = rows_of(cluster.database, "SELECT * FROM association_share")
    shown = {(row["account"], row["user"]): row for row in rows}
    for node in range(len(tree.parents)):
        row = shown[tree.account_of(node), tree.user_of(node)]
        for name in ("shares_norm", "usage", "usage_effective", "level_fairshare", "fairshare"):
            value = float(getattr(result, name)[node])
            assert row[name] == (None if np.isnan(value) else value)


# --- the rules ----------------------------------------------------------------------------------------------


@given(configurations(), NODES, st.sampled_from([1, 4090, 4096]), submissions(), changes(), submissions(4), changes())
@settings(max_examples=effort(17, 50))
def test_the_views_show_what_the_ranking_used_bit_for_bit(config, nodes, first_id, jobs, todo, more_jobs, more_todo):
    async def story(cluster):
        await cluster.submit(jobs)
        await cluster.change(todo, NOW - 100)
        check(cluster, *await cluster.rank(NOW))
        await cluster.submit(more_jobs)
        await cluster.change(more_todo, NOW + 10)
        check(cluster, *await cluster.rank(NOW + 20.5))

    run(config, nodes, first_id, story)


@given(configurations(), configurations(), NODES, submissions(), changes(), submissions(4), changes(), st.booleans())
@settings(max_examples=effort(8, 25))
def test_the_views_show_what_a_reloaded_configuration_ranks_bit_for_bit(
    config, other, nodes, jobs, todo, more_jobs, more_todo, restarts
):
    async def story(cluster):
        await cluster.submit(jobs)
        await cluster.change(todo, NOW - 100)
        check(cluster, *await cluster.rank(NOW))
        await cluster.submit(more_jobs)
        check(cluster, *await cluster.take_in(NOW + 5))
        await cluster.check_decisions(NOW + 5)
        await cluster.reload(other, restarts=restarts)
        check(cluster, *await cluster.rank(NOW + 10))
        await cluster.check_decisions(NOW + 10)
        await cluster.change(more_todo, NOW + 15)
        check(cluster, *await cluster.take_in(NOW + 20))
        await cluster.check_decisions(NOW + 20)
        check(cluster, *await cluster.rank(NOW + 30))

    run(config, nodes, 1, story)


STEPS = st.lists(st.tuples(submissions(4), changes(), st.sampled_from(["full", "delta", "delta"])), max_size=3)


@given(configurations(), NODES, st.sampled_from([1, 4090]), submissions(), STEPS)
@settings(max_examples=effort(8, 25))
def test_the_views_show_full_and_delta_generations_bit_for_bit(config, nodes, first_id, jobs, steps):
    async def story(cluster):
        await cluster.submit(jobs)
        check(cluster, *await cluster.rank(NOW))
        await cluster.check_decisions(NOW)
        for place, (more_jobs, todo, kind) in enumerate(steps, start=1):
            now = NOW + 10.5 * place
            await cluster.submit([(job, now - 1) for job, _ in more_jobs])
            await cluster.change(todo, now - 0.5)
            await cluster.check_decisions(now)
            state, ranking = await (cluster.rank(now) if kind == "full" else cluster.take_in(now))
            check(cluster, state, ranking)
            await cluster.check_leaves(ranking)
            await cluster.check_decisions(now)

    run(config, nodes, first_id, story)


@given(
    configurations(), NODES, submissions(), submissions(4), changes(), st.lists(changes(), max_size=2),
    st.integers(0, 3), changes(),
)  # fmt: skip
@settings(max_examples=effort(8, 25))
def test_a_generation_that_is_taken_in_before_it_is_visible_is_what_one_taken_in_later_is(
    config, nodes, jobs, more_jobs, todo, meanwhile, parts, more_todo
):
    async def story(cluster):
        await cluster.submit(jobs)
        await cluster.rank(NOW)
        await cluster.check_decisions(NOW)
        await cluster.submit([(job, NOW + 5) for job, _ in more_jobs])
        await cluster.change(todo, NOW + 6)
        cluster.meanwhile = [(changes, NOW + 11 + place) for place, changes in enumerate(meanwhile)]
        cluster.parts = parts
        await cluster.rank(NOW + 10)
        assert cluster.scheduler._source._staged._staged is not None
        await cluster.check_decisions(NOW + 15)
        assert cluster.scheduler._source._staged._staged is None
        await cluster.change(more_todo, NOW + 20)
        await cluster.check_decisions(NOW + 21)
        await cluster.take_in(NOW + 22)
        await cluster.check_decisions(NOW + 23)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_order, "LEAVES_PER_STEP", 1)
        run(config, nodes, 1, story)


@given(configurations(), NODES, submissions(), changes(), submissions(4), changes())
@settings(max_examples=effort(8, 20))
def test_what_a_source_knows_by_changes_is_what_a_new_one_reads(config, nodes, jobs, todo, more_jobs, more_todo):
    async def story(cluster):
        await cluster.submit(jobs)
        await cluster.change(todo, NOW - 100)
        await cluster.rank(NOW)
        await cluster.submit(more_jobs)
        await cluster.change(more_todo, NOW + 10)
        await cluster.rank(NOW + 20)
        again = await cluster.database.read(partial(current_state, cluster.prioritizer._source))
        new_source = cluster.new_source()
        anew = await cluster.database.read(partial(current_state, new_source))
        one, other = (rank(state, config.settings.priority, cluster.factors(), NOW + 30) for state in (again, anew))
        assert one.ids.tolist() == other.ids.tolist()
        assert one.priorities.points_sums.tobytes() == other.priorities.points_sums.tobytes()
        assert one.queues == other.queues
        assert cluster.prioritizer._source.jobs.blocked.by_id == new_source.jobs.blocked.by_id

    run(config, nodes, 1, story)


@given(
    configurations(),
    submissions(),
    changes(),
    changes(),
    st.lists(st.one_of(st.floats(0, 60), st.floats(0, 1e5)), max_size=3),
)
@settings(max_examples=effort(8, 25))
def test_usage_is_what_the_records_of_all_allocations_say_however_often_anyone_looked(
    config, jobs, todo, more_todo, looks
):
    """Against the definition: each charge decayed by itself, from the instant of its seconds."""

    async def story(cluster):
        await cluster.submit(jobs)
        await cluster.change(todo, NOW - 1e4)
        for look in sorted(looks):
            await cluster.rank(NOW - 1e4 + look)
        await cluster.change(more_todo, NOW + 1e5)
        await cluster.rank(NOW + 2e5)
        rows = rows_of(cluster.database, 'SELECT account, "user", usage FROM association_share')
        shown = {(row["account"], row["user"]): row["usage"] for row in rows}
        half_life = config.settings.priority.fairshare.half_life_s
        for account, user in USERS:
            expected = recomputed_usage(cluster, account, user, NOW + 2e5, half_life)
            assert math.isclose(shown[account, user], expected, rel_tol=1e-9, abs_tol=1e-9)

    run(config, [], 1, story)


def test_a_job_that_ended_on_a_faster_clock_is_charged_until_its_end_was_heard_of_and_once():
    config = configuration(
        priority=PrioritySettings(weights={"age": 1.0}, fairshare=FairshareSettings(half_life_s=None)),
        associations=(Association(account="physics"), Association(account="physics", user="alice")),
    )

    async def story(cluster):
        await cluster.submit([(accepted(), NOW - 100)])
        await cluster.change([("run", 0, 40)], NOW)  # from 3 s ago until 40 s ahead, as the node says
        for now, charged_s in ((NOW + 10, 3), (NOW + 20, 3), (NOW + 50, 3), (NOW + 60, 3)):
            await cluster.rank(now)
            (row,) = rows_of(cluster.database, "SELECT usage FROM association_share WHERE \"user\" = 'alice'")
            assert math.isclose(row["usage"], 0.7 * charged_s, rel_tol=1e-9), now

    run(config, [], 1, story)


def recomputed_usage(cluster, account, user, now, half_life):
    given_usage = next(a for a in cluster.config.associations if (a.account, a.user) == (account, user))
    decay = math.log(2) / half_life if half_life else 0.0
    usage = given_usage.usage * math.exp(-decay * (now - given_usage.usage_at))
    charges = rows_of(
        cluster.database,
        "SELECT l.charge_rate AS rate, l.allocated_at AS a, coalesce(l.ended_at, 9e99) AS b FROM allocations l"
        " JOIN jobs j ON j.id = l.job_id JOIN associations s ON s.id = j.association_id"
        f" WHERE s.account = '{account}' AND s.\"user\" = '{user}'",
    )
    for row in charges:
        end = min(row["b"], now)
        duration = end - row["a"]
        usage += row["rate"] * (
            duration
            if not half_life
            else (math.exp(-decay * (now - end)) - math.exp(-decay * (now - row["a"]))) / decay
        )
    return usage


@given(configurations(), submissions(), changes(), submissions(3))
@settings(max_examples=effort(8, 20))
def test_what_came_after_the_generation_has_its_initial_priority_and_no_rank(config, jobs, todo, more_jobs):
    async def story(cluster):
        await cluster.submit(jobs)
        state, ranking = await cluster.rank(NOW)
        newest = cluster.prioritizer._source.jobs.revision
        before = expected_rows(config, state, ranking)
        await cluster.submit(more_jobs)
        await cluster.change(todo, NOW + 1)
        path = cluster.database
        revisions = {
            r["id"]: r["revision"] for r in rows_of(path, "SELECT id, revision FROM jobs WHERE state = 'pending'")
        }
        shown = {row["id"]: row for row in rows_of(path, "SELECT * FROM job_priority")}
        assert set(shown) == set(revisions)
        for job, row in shown.items():
            if revisions[job] <= newest:
                assert {name: row[name] for name in before[job]} == before[job]
                continue
            assert row["override"] == "initial"
            assert row["rank"] is None
            assert row["points_sum"] is None
            assert row["priority"] == max(INT32_MIN, INT32_MAX + 1 - job)
        head = rows_of(path, "SELECT id FROM queue_head ORDER BY rank")
        wanted = [job for job in ranking.ids.tolist() if revisions.get(job, newest + 1) <= newest]
        assert [row["id"] for row in head] == wanted

    run(config, [], 1, story)


@pytest.mark.parametrize("favor", ["large", "small"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("weight", [0.1, -1e15])
def test_every_size_variant_is_the_same_in_sql_over_awkward_numbers(favor, relative, weight):
    """Three nodes with 17 cores: hardly any fraction is exact, so that the order of operations shows."""
    numbers = random.Random(17)
    jobs = [
        accepted(
            nodes=numbers.choice([1, 2, 3, 5, 7, 11, 60]),
            resources={"vcore": numbers.choice([1, 100, 500, 3333, 7000])},
            request={"time_limit_s": numbers.choice([None, 0.001, 17.3, 59.0, 3600.0, numbers.uniform(1, 1e6)])},
        )
        for _ in range(300)
    ]
    config = configuration(
        priority=PrioritySettings(weights={"size": weight}, favor=favor, size_relative_to_time=relative)
    )

    async def story(cluster):
        await cluster.database.write(
            lambda c: insert_jobs(c, [NewJob(accepted=j, actor="alice", at=NOW) for j in jobs], cluster.catalog)
        )
        check(cluster, *await cluster.rank(NOW))

    run(config, [("default", NodeState.UP)] * 2 + [("default", NodeState.DRAINING)], 1, story)


def test_ranks_are_whole_over_many_chunks_and_stages():
    """Ids far apart make many chunks of ids; they are written in several transactions."""
    config = configuration(priority=PrioritySettings(weights={"age": 1000.0, "luck": 10.0}))

    async def story(cluster):
        for chunk in range(20):
            await cluster.database.write(lambda c, first=chunk * 4096 + 4094: set_last_id(c, "jobs", first))
            await cluster.submit([(accepted(), NOW - 1000 * chunk) for _ in range(3)])
        check(cluster, *await cluster.rank(NOW))

    run(config, [], 1, story)


def test_ranks_are_whole_over_many_chunks_of_ranks():
    config = configuration(priority=PrioritySettings(weights={"age": 1000.0, "luck": 10.0}))

    async def story(cluster):
        new = [NewJob(accepted=accepted(held=place % 7 == 0), actor="alice", at=NOW - place) for place in range(5000)]
        await cluster.database.write(lambda c: insert_jobs(c, new, cluster.catalog))
        state, ranking = await cluster.rank(NOW)
        expected = expected_rows(config, state, ranking)
        shown = rows_of(cluster.database, "SELECT * FROM job_priority")
        assert {row["id"]: row["rank"] for row in shown} == {job: row["rank"] for job, row in expected.items()}
        assert sum(row["rank"] is not None for row in shown) == len(ranking.ids)
        ranked = rows_of(cluster.database, "SELECT job_id FROM ranking ORDER BY rank")
        assert [row["job_id"] for row in ranked] == ranking.ids.tolist()
        if ENGINE[0].name != "sqlite":
            return
        assert steps_of(cluster.database.path, "SELECT job_id, rank, priority FROM ranking") < 100 * len(ranking.ids)

    run(config, [], 1, story)


def steps_of(path, query):
    """How many of its virtual machine's instructions SQLite runs for a query, roughly."""
    steps = 0

    def count():
        nonlocal steps
        steps += 1000

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(count, 1000)
        connection.execute(query).fetchall()
    return steps


def test_no_factors_name_hides_a_column_of_the_jobs(tmp_path):
    names = ["rank", "priority", "queue", "reason", "luck", "points_sum"]
    columns = [FactorColumn(name=name, per=Per.JOB, sql="0.25") for name in names]
    with closing(sqlite3.connect(new_database(tmp_path))) as connection:
        plain = columns_of(connection, [])
        shown = columns_of(connection, columns)
    assert len(set(shown)) == len(shown)
    for name in names:
        assert f"{name}_points" in shown
        assert (f"{name}_factor" in shown) == (name != "luck")
    assert set(plain) - {"no_factor"} <= set(shown)


def columns_of(connection, factors):
    connection.execute("DROP VIEW IF EXISTS job_priority")
    connection.execute(factor_views(factors)["job_priority"])
    return [row[0] for row in connection.execute("SELECT * FROM job_priority").description]


class Moody(Luck):
    """A plugin's factor with a formula, that fails when told to."""

    name = "luck"
    fails = False

    def values(self, context):
        if self.fails:
            raise RuntimeError("not today")
        return np.full(len(context.jobs), 0.5)

    def sql(self):
        return "0.5"


def test_the_views_show_the_last_good_values_of_a_factor_that_fails():
    """Those of jobs that had any: the formula would show what the ranking did not use."""
    config = configuration(priority=PrioritySettings(weights={"luck": 10.0, "age": 1.0}))

    async def story(cluster):
        moody = cluster.prioritizer.factors.configured[0] = Moody()
        await cluster.submit([(accepted(), NOW - 5)])
        check(cluster, *await cluster.rank(NOW))
        await cluster.submit([(accepted(), NOW + 5)])
        moody.fails = True
        check(cluster, *await cluster.rank(NOW + 10))
        shown = rows_of(cluster.database, "SELECT luck FROM job_priority ORDER BY id")
        assert [row["luck"] for row in shown] == [0.5, 0.0]
        (generation,) = rows_of(cluster.database, "SELECT failures FROM generation ORDER BY number DESC LIMIT 1")
        assert "not today" in json.loads(generation["failures"])["luck"]
        moody.fails = False
        check(cluster, *await cluster.rank(NOW + 20))
        shown = rows_of(cluster.database, "SELECT luck FROM job_priority ORDER BY id")
        assert [row["luck"] for row in shown] == [0.5, 0.5]

    run(config, [], 1, story)


def test_a_job_of_a_queue_that_is_no_longer_configured_has_a_row_without_rank():
    config = configuration(
        root=parent("root", leaf("root.default"), leaf("root.gone")), priority=PrioritySettings(weights={"queue": 1.0})
    )
    now_without = configuration(priority=PrioritySettings(weights={"queue": 1.0}))

    async def story(cluster):
        await cluster.submit([(accepted(queue="root.gone"), NOW - 9), (accepted(), NOW - 8)])
        cluster.config = now_without
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, now_without, NOW))
        cluster.start_prioritizer()
        state, ranking = await cluster.rank(NOW)
        assert ranking.ids.tolist() == [2]
        shown = rows_of(cluster.database, "SELECT id, rank, queue FROM job_priority ORDER BY id")
        assert shown == [{"id": 1, "rank": None, "queue": "root.gone"}, {"id": 2, "rank": 1, "queue": "root.default"}]
        assert json.loads(rows_of(cluster.database, "SELECT failures FROM generation")[0]["failures"]) == {}
        assert len(state.jobs) == 2

    run(config, [], 1, story)
