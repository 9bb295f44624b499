"""A dump, evaluated, gives the live generation's numbers exactly, whatever has happened since.

Real database, real passes of the prioritizer; only the broker is missing, which a pass does without.
"""

import asyncio
import json
import random
import subprocess
import sys
from contextlib import closing

import msgspec
import pytest
from builder import NOW, accepted, configuration, leaf, new_database, parent

from rankd.bus.connection import Bus
from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_change import Change
from rankd.core.change.job_update import Task
from rankd.core.errors import Unavailable
from rankd.core.evaluate.anonymise import anonymised
from rankd.core.model.association import Association
from rankd.core.model.job import Event, State
from rankd.core.model.node import NodeState
from rankd.core.model.queue import Partition, QueueProperties
from rankd.core.model.setting import AdmissionSettings, FairshareSettings, PrioritySettings, Qos
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.service import Prioritizer
from rankd.store.engine.reading import fetch, open_for_reading
from rankd.store.engine.url import open_database
from rankd.store.look.dump import dump
from rankd.store.look.priority_list import priorities
from rankd.store.look.queue_list import queues
from rankd.store.look.share_list import shares
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.catalog import admission_tables, sync_catalog
from rankd.store.record.job import NewJob, apply_changes, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.record.job_update import judge, write_update
from rankd.store.record.node import register_node, set_state
from rankd.store.record.report import take_reports
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import JobFilter, NodeRegistration, Report

USERS = [("physics", "alice"), ("physics", "bob"), ("lab", "carol"), ("root", "dora")]
QUEUES = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "queues": [
                        {"name": "a", "properties": {"priority.offset": "500", "priority.factor": "2"}},
                        {
                            "name": "b",
                            "properties": {"priority.policy": "fence"},
                            "queues": [{"name": "x"}, {"name": "y"}],
                        },
                    ],
                }
            ],
        },
        {"name": "big", "queues": [{"name": "root", "queues": [{"name": "a"}, {"name": "c"}]}]},
    ]
}
BILLING = {"vcore": 1.0, "memory": 2.0**-30}
LEAVES = [*(("default", path) for path in ("root.a", "root.b.x", "root.b.y")), ("big", "root.a"), ("big", "root.c")]
NODES = {"default": ("n0", "n1", "n2"), "big": ("b0", "b1")}
ROOT = parent(
    "root",
    leaf("root.a", properties=QueueProperties(priority_offset=500, priority_factor=2.0)),
    parent("root.b", leaf("root.b.x"), leaf("root.b.y"), properties=QueueProperties(priority_policy="fence")),
)
BIG = parent("root", leaf("root.a"), leaf("root.c"))
RANKD = [sys.executable, "-m", "rankd"]
ADMIN = Submitter("admin", privileged=True)


def settings(algorithm, **given):
    weights = {"fairshare": 10000.5, "age": 1000.0, "size": 333.3, "qos": 777.7, "queue": -5.5, "user": 99.9}
    weights |= {"association": 12.3, "resource.memory": 45.6}
    fairshare = FairshareSettings(algorithm=algorithm, dampening=1.7, half_life_s=5000.0, billing=BILLING)
    return PrioritySettings(weights=weights, max_age_s=9000.0, fairshare=fairshare, **given)


def configured(algorithm, **given):
    accounts = [Association(account="physics", shares=3.0), Association(account="lab", shares=2.0)]
    users = [
        Association(
            account=account, user=user, shares=place + 1.0, usage=1e5 / 3 * place, usage_at=NOW - 777.7, priority=place
        )
        for place, (account, user) in enumerate(USERS)
    ]
    qos = [Qos(name="normal", priority=3), Qos(name="high", priority=10, usage_factor=1.7), Qos(name="odd", factor=0.3)]
    partitions = (Partition(root=ROOT), Partition(name="big", root=BIG))
    priority = settings(algorithm, **given)
    return configuration(partitions=partitions, associations=[*accounts, *users], priority=priority, qos=qos)


class Live:
    """A database with what the services do to it, drawn by chance."""

    def __init__(self, path, config, seed):
        self.path, self.config, self.chance = path, config, random.Random(seed)
        self.now = NOW
        self.users = USERS

    async def play(self, story):
        async with open_database(self.path, durable=False) as self.database:
            await self.database.take_role("prioritizer", NOW)
            self.catalog = await self.database.write(lambda c: sync_catalog(c, self.config, NOW))
            await self.database.write(self._add_nodes)
            source = RankingSource(self.config, self.catalog)
            bus = Bus("nats://127.0.0.1:1", "test")  # never connected
            self.prioritizer = Prioritizer(self.config, source, self.database, bus)
            await story(self)

    def _add_nodes(self, connection):
        for place, (partition, name) in enumerate((p, name) for p, names in NODES.items() for name in names):
            given = NodeRegistration(
                partition=partition, resources={"vcore": 6 + place, "memory": "8Gi"}, labels={"n": name}, agent="a"
            )
            register_node(connection, name, given, NOW)
        set_state(connection, "n2", NodeState.DRAINING, NOW, "test")

    async def submit(self, count):
        for _ in range(count):
            self.now += 1.3
            await self.database.write(self._insert)

    def _insert(self, connection):
        draw = self.chance
        account, user = draw.choice(self.users)
        partition, queue = draw.choice(LEAVES)
        job = accepted(
            user, account=account, partition=partition, queue=queue, qos=draw.choice(["normal", "high", "odd"]),
            class_value=draw.choice([0, 0, 700]), urgency=draw.choice([16, 16, 3, 24, 31]),
            nodes=draw.choice([1, 1, 2]), held=draw.random() < 0.1,
            resources={"vcore": draw.choice([500, 1000, 2500]), "memory": 2**30},
            request={
                "time_limit_s": draw.choice([None, 90.0, 3601.5]),
                "application": draw.choice([None, None, "one", "two"]),
                "begin_at": draw.choice([None, None, None, NOW + 1e6, self.now + 5]),
                "depends_on": draw.choice([[], [], [], [{"type": "afterany", "job": 1}]]),
            },
        )  # fmt: skip
        [number] = insert_jobs(connection, [NewJob(accepted=job, actor=user, at=self.now)], self.catalog)
        if draw.random() < 0.1:
            columns = {"fixed_priority": draw.choice([-3, 5000]), "fixed_by": "admin"}
            change = Change(job=number, state=State.PENDING, event=Event.UPDATE, actor="admin", columns=columns)
            apply_changes(connection, [change], self.now)

    async def happen(self, count):
        for _ in range(count):
            self.now += 0.7
            await self.database.write(self._change)

    def _change(self, connection):
        kind = self.chance.choice(["start", "start", "begin", "end", "requeue", "hold", "release", "cancel"])
        wanted = "j.state IN ('allocated', 'running')" if kind in ("end", "requeue") else "j.state = 'pending'"
        if kind == "begin":
            wanted = "j.state = 'allocated'"
        rows = connection.exec_driver_sql(
            "SELECT j.id, j.revision, j.allocation_id, j.nodes, q.partition FROM jobs j"
            f" JOIN queues q ON q.id = j.queue_id WHERE {wanted} ORDER BY j.id"
        ).all()
        if not rows:
            return
        job, revision, allocation, nodes, partition = self.chance.choice(rows)
        names = NODES[partition][:nodes]
        if kind == "start":
            new = NewAllocation(
                job=job, revision=revision, nodes=names, resources={"vcore": 500}, charge_rate=0.7, generation=1, rank=1
            )
            commit_allocations(connection, [new], 1, self.now)
        elif kind == "begin":
            for name in names:
                report = Report(allocation=allocation, job=job, kind="started", at=self.now)
                take_reports(connection, [(name, report)], 3, self.now)
        elif kind in ("end", "requeue"):
            cause = {"exit_status": 0} if kind == "end" else {"cause": "node_lost"}
            for name in names:
                report = Report(allocation=allocation, job=job, kind="ended", at=self.now, **cause)
                take_reports(connection, [(name, report)], 3, self.now)
        else:
            act(connection, [job], ADMIN, self.now, {"hold": hold, "release": release, "cancel": cancel}[kind])

    async def rank(self):
        self.now += 2.1
        await self.prioritizer.run_once(self.now)


def evaluated(path, config):
    with closing(open_for_reading(path)) as connection:
        found = dump(connection, config, QUEUES)
    result = Evaluator().evaluate(msgspec.json.encode(found.document))
    return found, msgspec.json.decode(msgspec.json.encode(result))


def shown(path):
    """What the views say of the newest generation: breakdowns, associations, queues."""
    with closing(open_for_reading(path)) as connection:
        return priorities(connection, JobFilter()), shares(connection), queues(connection)


def assert_same_jobs(result, rows, *, whole):
    by_id = {row["id"]: row for row in result["jobs"]}
    assert result["rejected"] == []
    for row in rows:
        if row["override"] == "initial":  # changed or submitted since
            continue
        job = by_id[row["id"]]
        assert (job["priority"], job["rank"], job["class_value"]) == (row["priority"], row["rank"], row["class_value"])
        assert job["override"] == row["override"]
        values = [(factor["name"], factor["value"], factor["weight"], factor["points"]) for factor in job["factors"]]
        assert values == [(f["name"], f["value"], f["weight"], f["points"]) for f in row["factors"]]
    if whole:
        assert set(by_id) == {row["id"] for row in rows}


def assert_same_groups(result, share_rows, queue_rows):
    found = {(row["account"], row["user"]): row for row in result["associations"]}
    for row in share_rows:
        same = found[row["account"], row["user"]]
        assert (same["usage"], same["shares_norm"]) == (row["usage"], row["shares_norm"])
        assert (same["usage_effective"], same["fairshare"]) == (row["usage_effective"], row["fairshare"])
        assert same["level_fairshare"] == row["level_fairshare"]
    by_path = {(row.get("partition", "default"), row["path"]): row for row in result["queues"]}
    for row in queue_rows:
        same = by_path[row["partition"], row["path"]]
        assert (same["priority"], same["share"]) == (row["priority"], row["share"])
        assert {k: v for k, v in same["pending"].items() if v} == {k: v for k, v in row["pending"].items() if v}


@pytest.mark.parametrize("algorithm", ["fair_tree", "classic"])
@pytest.mark.parametrize("seed", range(4))
def test_evaluating_a_dump_gives_the_newest_generations_numbers(tmp_path, seed, algorithm):
    assert_dump_is_live(new_database(tmp_path), configured(algorithm), seed)


def assert_dump_is_live(path, config, seed):
    async def story(live):
        await live.submit(30)
        await live.rank()
        await live.happen(20)
        await live.submit(5)
        await live.rank()

    asyncio.run(Live(path, config, seed).play(story))
    found, result = evaluated(path, config)
    rows, share_rows, queue_rows = shown(path)
    assert_same_jobs(result, rows, whole=True)
    assert_same_groups(result, share_rows, queue_rows)
    assert found.generation == 2


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", ["class", "fcfs"])
def test_evaluating_a_dump_gives_the_numbers_of_other_policies(tmp_path, policy, seed):
    path, config = new_database(tmp_path), configured("fair_tree", policy=policy)
    assert_dump_is_live(path, config, seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("favor", "relative"), [("small", False), ("small", True), ("large", True)])
def test_evaluating_a_dump_gives_the_numbers_of_size_variants(tmp_path, favor, relative, seed):
    path, config = new_database(tmp_path), configured("classic", favor=favor, size_relative_to_time=relative)
    assert_dump_is_live(path, config, seed)


@pytest.mark.parametrize("seed", range(3))
def test_users_without_association_have_fair_share_0_and_change_nobody_elses(tmp_path, seed):
    config = configured("fair_tree")
    admission = AdmissionSettings(unknown_association="zero")
    config = msgspec.structs.replace(
        config,
        settings=msgspec.structs.replace(config.settings, admission=admission),
        associations=(*config.associations, Association(account="default", shares=100.0)),
    )
    path = new_database(tmp_path)

    async def story(live):
        live.users = [*USERS, ("default", "eve")]
        await live.submit(40)
        await live.rank()
        await live.happen(40)
        await live.rank()
        await live.rank()

    asyncio.run(Live(path, config, seed).play(story))
    _, result = evaluated(path, config)
    rows, share_rows, queue_rows = shown(path)
    assert_same_jobs(result, rows, whole=True)
    assert_same_groups(result, [row for row in share_rows if row["user"] != "eve"], queue_rows)
    values = {row["user"]: row["factors"][0]["value"] for row in rows}
    assert values.pop("eve") == 0.0
    assert set(values.values()) <= {place / len(USERS) for place in range(1, len(USERS) + 1)}
    with closing(open_for_reading(path)) as connection:
        [charged] = fetch(
            connection,
            "SELECT count(*) AS ended, sum(l.charged) AS settled, min(a.usage) AS usage FROM allocations l"
            " JOIN jobs j ON j.id = l.job_id JOIN associations a ON a.id = j.association_id"
            " WHERE j.user = 'eve' AND l.ended_at IS NOT NULL",
        )
    assert charged["ended"] == (charged["settled"] or 0)
    assert charged["ended"] == 0 or charged["usage"] > 0


@pytest.mark.parametrize("seed", range(6))
def test_what_has_happened_since_the_generation_is_taken_back(tmp_path, seed):
    path, config = new_database(tmp_path), configured("fair_tree")
    before = {}

    async def story(live):
        await live.submit(25)
        await live.happen(6)
        await live.rank()
        before["shown"] = shown(path)
        before["result"] = evaluated(path, config)[1]
        await live.happen(15)
        await live.submit(4)

    asyncio.run(Live(path, config, seed).play(story))
    found, result = evaluated(path, config)
    assert found.newer == 4
    rows, share_rows, queue_rows = before["shown"]
    assert_same_jobs(result, rows, whole=True)
    assert_same_groups(result, share_rows, queue_rows)
    assert result["ranking"] == before["result"]["ranking"]
    assert found.updated == []


def test_a_dump_before_the_first_ranking_is_not_available(tmp_path):
    path = new_database(tmp_path)
    with closing(open_for_reading(path)) as connection, pytest.raises(Unavailable) as caught:
        dump(connection, configured("classic"), QUEUES)
    assert caught.value.code == "no_generation"


def test_weights_of_the_command_line_are_in_the_dump(tmp_path):
    path, config = new_database(tmp_path), configured("classic")
    priority = msgspec.structs.replace(config.settings.priority, weights={"age": 0.1})
    other = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, priority=priority))

    async def story(live):
        await live.submit(3)
        await live.rank()

    asyncio.run(Live(path, other, 0).play(story))
    found, _ = evaluated(path, config)
    assert json.loads(msgspec.json.encode(found.document))["priority"]["weights"] == {"age": 0.1}


def test_jobs_that_were_updated_since_are_named(tmp_path):
    path, config = new_database(tmp_path), configured("classic")

    async def story(live):
        await live.submit(3)
        await live.rank()
        change = Change(job=2, state=State.PENDING, event=Event.UPDATE, actor="admin", columns={"fixed_priority": 7})
        await live.database.write(lambda connection: apply_changes(connection, [change], live.now))

    asyncio.run(Live(path, config, 0).play(story))
    assert evaluated(path, config)[0].updated == [2]


def test_a_job_that_an_update_held_and_let_go_has_waited_since_then(tmp_path):
    path, config = new_database(tmp_path), configured("classic")
    before = {}

    async def story(live):
        new = [NewJob(accepted=accepted(queue="root.a"), actor="alice", at=NOW)] * 2
        await live.database.write(lambda c: insert_jobs(c, new, live.catalog))
        tables = admission_tables(config, live.catalog)
        for job, urgency, at in ((1, 0, 100), (2, 0, 100), (2, 5, 90_000)):
            task = Task(JobUpdate(urgency=urgency), ADMIN, tables, NOW + at)
            await live.database.write(
                lambda c, job=job, task=task: write_update(c, judge(c, [job], task), task, live.catalog)
            )
        live.now += 100_000
        await live.rank()
        before["shown"] = shown(path)[0]
        await live.database.write(lambda c: act(c, [1, 2], ADMIN, live.now, cancel))

    asyncio.run(Live(path, config, 0).play(story))
    found, result = evaluated(path, config)
    assert_same_jobs(result, before["shown"], whole=True)
    jobs = {job["id"]: (job.get("held", False), job["eligible_at"]) for job in found.document["jobs"]}
    assert jobs == {1: (True, None), 2: (False, NOW + 90_000)}


def test_the_commands_pass_a_live_state_on(tmp_path):
    directory, path = tmp_path / "config", new_database(tmp_path)
    directory.mkdir()
    (directory / "queues.yaml").write_text(json.dumps(QUEUES))
    (directory / "rankd.toml").write_text("".join(f'[[qos]]\nname = "{name}"\n' for name in ("normal", "high", "odd")))
    (directory / "accounts.yaml").write_text(
        "users: [{name: dora}]\naccounts:\n  - {name: physics, users: [{name: alice}, {name: bob}]}\n"
        "  - {name: lab, users: [{name: carol}]}\n"
    )

    async def story(live):
        await live.submit(8)
        await live.rank()

    asyncio.run(Live(path, load_configuration(directory), 1).play(story))
    place = ["--db", str(path), "--config", str(directory)]
    dumped = subprocess.run([*RANKD, "dump", *place], capture_output=True, check=True)
    decided = subprocess.run([*RANKD, "evaluate", "-"], input=dumped.stdout, capture_output=True, check=True)
    assert dumped.stderr == decided.stderr == b""
    rows, share_rows, queue_rows = shown(path)
    assert_same_jobs(json.loads(decided.stdout), rows, whole=True)
    assert_same_groups(json.loads(decided.stdout), share_rows, queue_rows)


def ranks_of(document):
    """What evaluate decides, by job: everything but names."""
    result = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(document)))
    numbers = ("id", "rank", "priority", "points_sum", "state", "reason", "class_value")
    jobs = [tuple(job.get(name) for name in numbers) for job in result["jobs"]]
    return jobs, len(result.get("placements", [])), len(result.get("reservations", []))


@pytest.mark.parametrize("seed", range(2))
def test_an_anonymised_dump_names_nobody_and_gives_the_same_decisions(tmp_path, seed):
    new_database(tmp_path)
    config = configured("fair_tree")

    async def story(live):
        await live.submit(40)
        await live.rank()
        await live.happen(25)
        await live.submit(10)
        await live.rank()

    asyncio.run(Live(tmp_path / "rankd.db", config, seed).play(story))
    with closing(open_for_reading(tmp_path / "rankd.db")) as connection:
        document = msgspec.to_builtins(dump(connection, config, QUEUES).document)
    hidden = anonymised(document)
    assert ranks_of(hidden) == ranks_of(document)
    text = json.dumps(hidden)
    names = {name for pair in USERS for name in pair} - {"root"}
    names |= {name for own in NODES.values() for name in own} | {"one", "two", "normal", "high", "odd", "big"}
    assert [name for name in sorted(names) if f'"{name}"' in text] == []
