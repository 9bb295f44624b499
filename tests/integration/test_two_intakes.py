"""Two intakes that both answer users, on one PostgreSQL database: limits, names and keys are as if there were one.

Each has a broker of its own, so that a test chooses which one is asked. The first one holds the role.
"""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from integration.conftest import Broker
from integration.lease_stage import do, new_database, rows, until
from integration.stage import connected, ready, running, write_config

from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.services.intake import intake as intake_module
from rankd.services.intake import service as service_module
from rankd.services.intake.service import IntakeOptions, run

JOB = {"command": ["true"]}
URGENT = {"name": "deadline", "value": 500}
ADMIN = "rankd.v1.admin.root"


@pytest.fixture
def url():
    made, drop = new_database()
    yield made
    drop()


@pytest.fixture
def second_broker(tmp_path):
    made = Broker(tmp_path / "second-broker")
    made.start()
    yield made
    made.kill()


@pytest.fixture
def no_follower(monkeypatch):
    """Nobody looks once a second what others have written: only transactions do, and requests that are refused."""
    monkeypatch.setattr(intake_module, "FOLLOW_EVERY_S", 3_600.0)


@pytest.fixture
def two(broker, second_broker, url, tmp_path, no_follower, monkeypatch):  # noqa: ARG001 - it only has to be there
    """Starts both; yields a client of each, and the directory of the configuration."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def started(**settings):
        config: Path = write_config(tmp_path / "config", **settings)
        first, second = (IntakeOptions(nats=one.url, db=url, config=config) for one in (broker, second_broker))
        async with (
            Bus(broker.url, "probe") as one, Bus(second_broker.url, "probe") as other,
            connected(broker.url) as holder, connected(second_broker.url) as beside,
            running(run, first),
        ):  # fmt: skip
            await ready(one, "intake")
            async with running(run, second):
                await ready(other, "intake")
                yield holder, beside, config

    return started


def rule(**limits):
    """Settings of admission beside those of the stage."""
    return {"unknown_association": "\n".join(['"default"', *(f"{name} = {most}" for name, most in limits.items())])}


async def test_a_limit_of_pending_jobs_holds_for_both_together(two, url):
    async with two(**rule(max_pending_per_user=10, max_pending=1_000)) as (holder, beside, _):
        for client in (holder, beside):
            await client.submit()  # each has counted
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(client.do("job.submit", JOB)) for _ in range(12) for client in (holder, beside)]
        codes = [task.result().body.get("code") for task in asked]
        assert set(codes) == {None, "too_many_pending"}
        assert codes.count(None) == 8
        batch = await beside.do("job.submit", {"jobs": [JOB] * 3}, "bob")
        assert len(batch.body["accepted"]) == 3
        batch = await holder.do("job.submit", {"jobs": [JOB] * 20}, "bob")
        assert len(batch.body["accepted"]) == 7
        keyed = [JOB | {"key": f"k{at}"} for at in range(10)]
        await beside.do("job.submit", {"jobs": keyed[:9]}, "carol")
        batch = await beside.do("job.submit", {"jobs": [keyed[9], keyed[0]]}, "carol")
        assert len(batch.body["accepted"]) == 2, "a job that is stored already takes no room"
    counts = 'SELECT "user", count(*) FROM jobs GROUP BY 1 ORDER BY 1'
    assert rows(url, counts) == [("alice", 10), ("bob", 10), ("carol", 10)]


async def test_a_limit_of_shapes_holds_for_both_together(two, url):
    async with two(**rule(max_shapes_per_user=5)) as (holder, beside, _):
        for at in range(6):
            for client in (holder, beside):
                await client.do("job.submit", JOB | {"resources": {"vcore": 1 + at % 3}})
        for at in range(6):
            for client in (holder, beside):
                await client.do("job.submit", JOB | {"resources": {"vcore": 10 + at}})
    assert rows(url, "SELECT count(DISTINCT shape) FROM jobs") == [(5,)]


async def test_the_first_jobs_of_a_user_at_both_are_in_one_association(two, url):
    async with two(**rule()) as (holder, beside, _), asyncio.TaskGroup() as group:
        for number in range(10):
            for client in (holder, beside):
                group.create_task(client.submit(f"new{number}"))
    assert rows(url, "SELECT count(*), count(DISTINCT association_id) FROM jobs") == [(20, 10)]


async def test_a_class_that_one_has_changed_counts_at_the_other_at_once(two, url):
    async with two(**rule()) as (holder, beside, _):
        assert (await holder.ask(f"{ADMIN}.class.create", URGENT)).status is None
        job = await beside.submit(priority_class="deadline")
        listed = (await beside.do("class.list", {})).body["classes"]
        assert "deadline" in [one["name"] for one in listed]
        assert (await beside.ask(f"{ADMIN}.class.delete", {"name": "deadline"})).status is None
        refused = await holder.do("job.submit", JOB | {"priority_class": "deadline"})
        assert refused.status is not None
        assert (await holder.ask(f"{ADMIN}.class.create", URGENT | {"value": 700})).status is None
        assert (await beside.do("job.update", {"id": job, "priority_class": "deadline"})).status is None
        again = await beside.submit(priority_class="deadline")
    assert rows(url, "SELECT id, class_value FROM jobs ORDER BY id") == [(job, 700), (again, 700)]


async def test_a_reloaded_configuration_counts_at_the_other_at_once(two, url):
    async with two(**rule(max_pending_per_user=10)) as (holder, beside, config):
        await beside.submit()
        write_config(config, **rule(max_pending_per_user=1))
        reloaded = await holder.ask(f"{ADMIN}.config.reload", {})
        assert reloaded.body["is_new"], reloaded
        assert (await beside.do("job.submit", JOB)).body["code"] == "too_many_pending"
        write_config(config, **rule(max_pending_per_user=2))
        assert (await holder.ask(f"{ADMIN}.config.reload", {})).body["is_new"]
        await beside.submit()
    assert rows(url, "SELECT count(*) FROM jobs") == [(2,)]


@pytest.mark.usefixtures("no_follower")
async def test_a_reload_while_the_other_one_starts_counts_there(broker, second_broker, url, tmp_path, monkeypatch):
    """Between the moment at which it has read the configuration, and the one at which it answers."""
    monkeypatch.chdir(tmp_path)
    config = write_config(tmp_path / "config", **rule(max_pending_per_user=10))
    first, second = (IntakeOptions(nats=one.url, db=url, config=config) for one in (broker, second_broker))
    read = service_module._recorded_unless
    async with (
        Bus(broker.url, "probe") as one, Bus(second_broker.url, "probe") as other,
        connected(broker.url) as holder, connected(second_broker.url) as beside,
        running(run, first),
    ):  # fmt: skip
        await ready(one, "intake")

        async def read_before_a_reload(*args):
            found = await read(*args)
            write_config(config, **rule(max_pending_per_user=1))
            assert (await holder.ask(f"{ADMIN}.config.reload", {})).body["is_new"]
            return found

        monkeypatch.setattr(service_module, "_recorded_unless", read_before_a_reload)
        async with running(run, second):
            await ready(other, "intake")
            await beside.submit()
            assert (await beside.do("job.submit", JOB)).body.get("code") == "too_many_pending"


async def test_a_configuration_that_can_not_be_used_lets_nobody_in_until_another_one_is_recorded(
    two, url, monkeypatch, second_broker
):
    def record(files):
        do(url, f"""INSERT INTO configurations (at, actor, event, directory, changes, digest, files)
            SELECT at, actor, event, directory, changes, digest, {files}
            FROM configurations WHERE id = 1""")  # fmt: skip
        do(url, "UPDATE versions SET number = number + 1 WHERE name = 'catalog'")

    monkeypatch.setattr(intake_module, "FOLLOW_EVERY_S", 0.2)
    async with two(**rule()) as (_, beside, _), Bus(second_broker.url, "asker") as bus:
        await beside.submit()
        record("""'{"rankd.toml": "[of_a_later_version]"}'""")
        assert (await beside.do("job.submit", JOB)).body.get("code") in ("busy", "configuration_unusable")
        for refused in (await beside.do("job.submit", JOB), await beside.do("class.list", {})):
            assert refused.body["code"] == "configuration_unusable"
        health = await ask_health(bus, "intake")
        assert (health.ready, health.code) == (False, "configuration_unusable")
        assert rows(url, "SELECT count(*) FROM jobs") == [(1,)]
        record("files")
        async with asyncio.timeout(60):
            while (await beside.do("job.submit", JOB)).status is not None:
                await asyncio.sleep(0.1)


async def test_many_requests_that_see_a_change_at_once_load_it_once(two, monkeypatch):
    loads, read = [], intake_module.read_catalog

    def counted(connection):
        loads.append(1)
        return read(connection)

    async with two(**rule()) as (holder, beside, _):
        await beside.submit()
        assert (await holder.ask(f"{ADMIN}.class.create", URGENT)).status is None
        monkeypatch.setattr(intake_module, "read_catalog", counted)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(beside.do("class.list", {})) for _ in range(30)]
        assert all("deadline" in [one["name"] for one in task.result().body["classes"]] for task in asked)
        assert len(loads) == 1


async def test_what_a_node_offers_counts_at_the_other_at_once(two):
    async with two(**rule()) as (holder, beside, _):
        wanted = JOB | {"resources": {"vcore": 1, "fpga": 1}}
        assert (await beside.do("job.submit", wanted)).status is not None
        node = {"resources": {"vcore": 2, "fpga": 1}, "agent": "n1"}
        assert (await holder.ask("rankd.v1.node.n1.register", node)).status is None
        assert (await beside.do("job.submit", wanted)).status is None


async def test_one_message_id_at_both_is_one_job(two, url):
    async with two(**rule()) as (holder, beside, _):

        async def submit(client, key):
            return await client.do("job.submit", JOB | {"key": key})

        async with asyncio.TaskGroup() as group:
            asked = {
                key: [group.create_task(submit(client, key)) for client in (holder, beside)]
                for key in map(str, range(10))
            }
        for tasks in asked.values():
            first, second = (task.result().body["id"] for task in tasks)
            assert first == second
    assert rows(url, "SELECT count(*) FROM jobs") == [(10,)]


async def test_an_intake_without_the_role_answers_no_nodes_and_takes_over_with_all_it_needs(
    broker, second_broker, url, tmp_path, monkeypatch
):
    """The holder of the role ends. The other one, which has answered users all the time, begins to answer nodes."""
    monkeypatch.chdir(tmp_path)
    config = write_config(tmp_path / "config")
    first, second = (IntakeOptions(nats=one.url, db=url, config=config) for one in (broker, second_broker))
    node = {"resources": {"vcore": 2}, "agent": "n1"}
    async with Bus(second_broker.url, "probe") as bus, connected(second_broker.url) as client:
        async with Bus(broker.url, "probe") as one, running(run, first):
            await ready(one, "intake")
            task = running(run, second)
            await task.__aenter__()
            await ready(bus, "intake")
            await client.submit()
            with pytest.raises(Exception, match="no responders"):
                await client.ask("rankd.v1.node.n1.register", node)
        await until(lambda: rows(url, "SELECT epoch FROM roles WHERE ready_at IS NOT NULL") == [(2,)])
        assert (await client.ask("rankd.v1.node.n1.register", node)).status is None
        await client.submit()
        do(url, "UPDATE roles SET epoch = 3, holder = 'another'")
        reply = await client.do("job.submit", JOB)
        assert reply.body["code"] in {"role_lost", "stopping"}  # the write sees it first, or the renewal of the lease
        with pytest.raises(BaseExceptionGroup):
            await task.__aexit__(None, None, None)
    assert rows(url, "SELECT count(*) FROM jobs") == [(2,)]
