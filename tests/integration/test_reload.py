"""Another configuration while everything runs: taken whole by all services, or refused with every problem."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager, closing

import builder
import msgspec
import pytest
from integration.stage import PATIENCE_S, a_cluster, connected, ready, rows, running, write_config
from watch import gone

from rankd.bus.connection import Bus
from rankd.bus.diag_request import ask_diag
from rankd.config.configuration import read_configuration
from rankd.config.evaluation import Evaluator, parsed_queues
from rankd.core.errors import ConfigurationError
from rankd.core.model.service_setting import NodeSettings, SiteSettings
from rankd.core.model.setting import Settings
from rankd.services.intake import service as intake
from rankd.services.intake.node_watch import NodeWatch
from rankd.services.prioritizer import service as prioritizer
from rankd.services.scheduler import service as scheduler
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.store.record.configuration import recorded
from rankd.wire.diag import PrioritizerDiag, SchedulerDiag


async def nothing(*_):
    """Nobody wants to hear of it."""


RELOAD = "rankd.v1.admin.root.config.reload"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


class Site:
    """A directory of files, a database, a client, and the services that run."""

    def __init__(self, broker, tmp_path, client, bus):
        self.config, self.path = tmp_path / "config", tmp_path / "rankd.db"
        self.broker, self.client, self.bus = broker, client, bus
        self.services = {}

    def options(self, kind, **more):
        return kind(nats=self.broker.url, db=str(self.path), config=self.config, **more)

    def edit(self, file, old, new):
        """As an editor does: the whole file anew."""
        text = (self.config / file).read_text()
        assert old in text
        (self.config / file).write_text(text.replace(old, new))

    async def start(self, *names, **more):
        kinds = {
            "intake": (intake.run, intake.IntakeOptions),
            "prioritizer": (prioritizer.run, prioritizer.PrioritizerOptions),
            "scheduler": (scheduler.run, scheduler.SchedulerOptions),
        }
        for name in names:
            run, kind = kinds[name]
            service = running(run, self.options(kind, **more))
            await service.__aenter__()
            self.services[name] = service
            await ready(self.bus, name)

    async def stop(self, *names):
        for name in names:
            await self.services.pop(name).__aexit__(None, None, None)

    async def reload(self):
        reply = await self.client.ask(RELOAD, {})
        assert reply.status is None, reply
        return reply.body

    def rows(self, query, *values):
        return rows(self.path, query, *values)

    def history(self):
        query = "SELECT number, event, changes FROM configuration ORDER BY number"
        return [(number, event, json.loads(changes)) for number, event, changes in self.rows(query)]

    def full(self):
        """The newest full generation: under which configuration, and with which weights."""
        query = "SELECT configuration, weights FROM generation WHERE kind = 'full' ORDER BY number DESC LIMIT 1"
        return [(number, json.loads(weights)) for number, weights in self.rows(query)]

    async def ranked_under(self, number):
        """Returns once a full generation was made under this configuration."""
        await self.client.until(lambda: self.full() and self.full()[0][0] == number)

    async def scheduled_under(self, number):
        """Returns once the scheduler goes by this configuration."""
        while (await ask_diag(self.bus, "scheduler", SchedulerDiag)).configuration.number != number:
            pass

    async def prioritizer_diag(self):
        return await ask_diag(self.bus, "prioritizer", PrioritizerDiag)

    async def settled(self):
        """Returns once a full generation was made of all that is known now."""
        [(newest,)] = self.rows("SELECT coalesce(max(number), 0) FROM generation")
        query = "SELECT 1 FROM generation WHERE kind = 'full' AND number > ?"
        for _ in range(2):  # the first one may have begun before
            await self.client.until(lambda: self.rows(query, newest))  # noqa: B023 - waited for here
            [(newest,)] = self.rows("SELECT max(number) FROM generation")

    def ranked(self):
        return {job for (job,) in self.rows("SELECT job_id FROM ranking")}

    def allocated(self):
        return [job for (job,) in self.rows("SELECT job_id FROM allocation ORDER BY job_id")]

    async def add_node(self, vcore):
        registration = {"resources": {"vcore": vcore}, "agent": "a1"}
        reply = await self.client.ask("rankd.v1.node.n1.register", registration)
        assert reply.status is None, reply

    def dumped(self):
        """The live state's document, evaluated: ranking and priorities; and the live ones."""
        with closing(open_for_reading(self.path)) as connection:
            [(number,)] = connection.execute(
                "SELECT configuration FROM generations WHERE kind = 'full' ORDER BY number DESC LIMIT 1"
            ).fetchall()
            found = recorded(connection.execute, number)
            stated = read_configuration(found.directory, found.files)
            document = dump(connection, stated, parsed_queues(found.files.get("queues.yaml"))).document
            live = connection.execute("SELECT job_id, priority FROM ranking ORDER BY rank").fetchall()
        result = Evaluator().evaluate(msgspec.json.encode(document))
        priorities = {job.id: job.priority for job in result.jobs}
        return [(job, priorities[job]) for job in result.ranking], live


@asynccontextmanager
async def a_site(broker, tmp_path, *names, files=None, **settings):
    config = write_config(tmp_path / "config", **settings)
    for name, text in (files or {}).items():
        (config / name).write_text(text)
    async with connected(broker.url) as client, Bus(broker.url, "probe") as bus:
        site = Site(broker, tmp_path, client, bus)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lambda: site.stop(*reversed(site.services)))
            await site.start(*names)
            yield site


WEIGHTS = """
[priority.weights]
age = 1000
qos = 100
"""


def with_weights(config):
    with (config / "rankd.toml").open("a") as file:
        file.write(WEIGHTS)


async def test_changed_weights_count_from_the_next_full_pass_on(broker, tmp_path):
    async with a_site(broker, tmp_path) as site:
        with_weights(site.config)
        await site.start("intake", "prioritizer", "scheduler")
        for user in ("alice", "bob"):
            await site.client.submit(user, qos="high")
            await site.client.submit(user)
        site.edit("rankd.toml", "qos = 100", "qos = 7000")
        assert await site.reload() == {
            "number": 2,
            "is_new": True,
            "n_changes": 1,
            "changes": ["priority.weights.qos 100 -> 7000"],
            "warnings": [],
        }
        await site.ranked_under(2)
        assert site.full() == [(2, {"age": 1000.0, "qos": 7000.0})]
        points = site.rows("SELECT qos, qos_points, priority, class_value, points_sum FROM job_priority ORDER BY id")
        assert [(qos, found) for qos, found, *_ in points] == [("high", 7000.0), ("normal", 0.0)] * 2
        assert all(priority == own + int(total) for *_, priority, own, total in points)
        evaluated, live = site.dumped()
        assert evaluated == live != []
        await site.scheduled_under(2)
        assert site.history() == [
            (1, "started", []),
            (2, "reloaded", [{"file": "rankd.toml", "key": "priority.weights.qos", "old": "100", "new": "7000"}]),
        ]
        nodes = "[nodes]\nknown = { n1 = { vcore = 8 } }\n[priority.fairshare]\nbilling = { vcore = 1.0, gpus = 2.0 }"
        site.edit("rankd.toml", "qos = 7000", f"qos = 7000\n{nodes}")
        [warning] = (await site.reload())["warnings"]
        assert "no node has gpus, so its price has no effect" in warning


async def test_shares_and_qos_count_at_once_for_those_who_submit_and_soon_for_those_who_wait(broker, tmp_path):
    async with a_site(broker, tmp_path, "intake", "prioritizer", "scheduler") as site:
        for user in ("alice", "bob"):
            await site.client.submit(user)
        site.edit("accounts.yaml", "{name: alice}", "{name: alice, shares: 3}, {name: carol}")
        site.edit("rankd.toml", 'name = "high"', 'name = "low"\npriority = 1\n[[qos]]\nname = "high"')
        reply = await site.reload()
        assert reply["changes"] == [
            "qos.low added: priority 1",
            "accounts.physics.users.alice.shares added: 3",
            "accounts.physics.users.carol added",
        ]
        low = await site.client.submit("carol", account="physics", qos="low")
        await site.ranked_under(2)
        await site.client.until(lambda: site.rows("SELECT 1 FROM ranking WHERE job_id = ?", low))
        shares = dict(site.rows('SELECT "user", shares_norm FROM association_share WHERE "user" IS NOT NULL'))
        assert shares["alice"] == 3 * shares["carol"] == 3 * shares["bob"]
        await site.client.until(lambda: site.rows("SELECT 1 FROM job_priority WHERE id = ? AND qos = 'low'", low))
        [(value,)] = site.rows("SELECT value FROM job_factor WHERE job_id = ? AND factor = 'qos'", low)
        assert value in (0.0, 0.01)  # a delta on the pass before it knew nothing of this QoS
        await site.client.until(
            lambda: site.rows("SELECT 1 FROM job_factor WHERE job_id = ? AND factor = 'qos' AND value = 0.01", low)
        )
        await site.settled()
        evaluated, live = site.dumped()
        assert evaluated == live != []


async def test_a_dump_is_under_the_configuration_of_its_ranking_while_another_one_waits_for_a_pass(broker, tmp_path):
    async with a_site(broker, tmp_path, "intake", "prioritizer") as site:
        for user in ("alice", "bob", "first%2Elast"):
            await site.client.submit(user, qos="high" if user == "bob" else "normal")
        await site.settled()
        await site.stop("prioritizer")
        site.edit("accounts.yaml", "{name: alice}", "{name: alice, shares: 30}")
        site.edit("rankd.toml", "priority = 100", "priority = 1")
        site.edit("rankd.toml", "period_s = 0.3", 'period_s = 0.3\nfavor = "small"')
        await site.reload()
        evaluated, live = site.dumped()
        assert evaluated == live != []
        assert site.full()[0][0] == 1
        await site.start("prioritizer")
        await site.ranked_under(2)
        evaluated, live = site.dumped()
        assert evaluated == live != []


QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: default}
          - {name: small, resources: {max: {vcore: "2"}}}
          - {name: old}
"""
OTHER_QUEUES = """
partitions:
  - name: gpu
    queues: [{name: root, queues: [{name: fast}]}]
  - name: default
    queues:
      - name: root
        queues:
          - {name: default}
          - {name: small, resources: {max: {vcore: "3"}}}
          - {name: new, properties: {priority.offset: "5"}}
"""


async def test_queues_come_go_and_get_other_limits(broker, tmp_path):
    async with a_site(broker, tmp_path, files={"queues.yaml": QUEUES}) as site:
        await site.start("intake", "prioritizer", "scheduler")
        await site.add_node(8)
        small = [await site.client.submit(queue="root.small") for _ in range(4)]
        gone = await site.client.submit(queue="root.old", resources={"vcore": 64})
        await site.client.until(lambda: site.allocated() == small[:2])
        (site.config / "queues.yaml").write_text(OTHER_QUEUES)
        await site.reload()
        new = await site.client.submit(queue="root.new", resources={"vcore": 64})
        fast = await site.client.submit(queue="root.fast", partition="gpu")
        refused = await site.client.do("job.submit", {"command": ["true"], "queue": "root.old"})
        assert refused.body["code"] == "removed_queue"
        await site.client.until(lambda: site.allocated() == small[:3])
        await site.client.until(lambda: {new, fast} <= site.ranked())
        await site.settled()
        assert site.ranked() == {small[3], new, fast}
        assert site.rows("SELECT state FROM job WHERE id = ?", gone) == [("pending",)]
        queues = dict(site.rows("SELECT partition || ':' || path, offset FROM queue_priority"))
        assert queues["default:root.new"] == 5
        assert "default:root.old" not in queues
        events = site.rows("SELECT path, event FROM queue_events WHERE partition = 'default' ORDER BY id DESC LIMIT 3")
        assert set(events) == {("root.old", "removed"), ("root.new", "made"), ("root.small", "changed")}
        (site.config / "queues.yaml").write_text(QUEUES)
        await site.reload()
        await site.client.until(lambda: gone in site.ranked())
        await site.settled()
        assert site.ranked() == {small[3], gone}


async def test_jobs_in_a_queue_that_becomes_a_parent_wait_for_being_moved_and_lift_nothing(broker, tmp_path):
    below = QUEUES.replace("{name: old}", "{name: old, queues: [{name: below}]}")
    async with a_site(broker, tmp_path, "intake", "prioritizer", files={"queues.yaml": QUEUES}) as site:
        waits = [await site.client.submit(queue="root.old", resources={"vcore": 64}) for _ in range(2)]
        await site.client.until(lambda: site.ranked() == set(waits))
        (site.config / "queues.yaml").write_text(below)
        await site.reload()
        await site.ranked_under(2)
        shown = "SELECT priority, pending_jobs FROM queue_priority WHERE path = ?"
        assert site.ranked() == set()
        assert site.rows(shown, "root.old") == [(None, 0)]
        [(reason, fact)] = site.rows("SELECT reason, reason_fact FROM job WHERE id = ?", waits[0])
        assert (reason, fact) == (
            "not eligible",
            "the queue root.old has become a parent queue: move the job below it",
        )
        assert (await site.client.do("job.cancel", {"ids": waits[:1]})).status is None
        moved = await site.client.do("job.update", {"ids": waits[1:], "queue": "root.old.below"})
        assert moved.status is None, moved
        await site.client.until(lambda: site.ranked() == {waits[1]})
        assert site.rows("SELECT pending_jobs FROM queue_priority WHERE path = 'root.old'") == [(1,)]
        await site.settled()
        evaluated, live = site.dumped()
        assert evaluated == live != []


async def test_a_configuration_with_problems_is_refused_with_all_of_them_and_changes_nothing(broker, tmp_path):
    async with a_site(broker, tmp_path, "intake", "prioritizer") as site:
        await site.client.submit()
        await site.ranked_under(1)
        more = "[priority.weights]\nagee = 1\n" + ADAPTER.format(name="one").replace('"file"', '"fiel"')
        site.edit("rankd.toml", "[admission]", f"{more}[admission]")
        site.edit("accounts.yaml", "accounts", "acounts")
        (site.config / "queues.yaml").write_text("partitions: 3\n")
        reply = await site.client.ask(RELOAD, {})
        assert (reply.status, reply.body["code"]) == (400, "bad_configuration")
        adapter = "rankd.toml: adapters 'one': no installed package provides the adapter 'fiel'"
        wanted = ["unknown factor 'agee'", adapter, "acounts", "queues.yaml:1: partitions"]
        lines = reply.body["message"].splitlines()
        assert len(lines) == len(wanted)
        assert all(any(part in line for line in lines) for part in wanted)
        assert (await site.client.do("config.reload", {}, "alice")).body["code"] == "admins_only"
        await site.client.submit()
        assert [number for number, *_ in site.history()] == [1]
        shown = (await site.client.do("diag.show")).body["configuration"]
        assert (shown["number"], shown["failed"], shown["message"]) == (1, 1, reply.body["message"])


async def test_a_service_that_can_not_take_it_keeps_the_last_one_and_says_so(broker, tmp_path):
    async with a_site(broker, tmp_path) as site:
        with_weights(site.config)
        await site.start("intake")
        await site.start("prioritizer", weights={"age": 0.0})
        await site.client.submit(qos="high")
        await site.ranked_under(1)
        site.edit("rankd.toml", "qos = 100", "")
        await site.reload()  # all weights are 0 for this prioritizer alone
        while not (found := await site.prioritizer_diag()).configuration.failed:
            pass
        assert found.configuration.number == 1
        assert "all weights are 0" in found.configuration.message
        assert site.full() == [(1, {"age": 0.0, "qos": 100.0})]
        site.edit("rankd.toml", "age = 1000", "qos = 5")
        assert (await site.reload())["number"] == 3
        await site.ranked_under(3)
        assert site.full() == [(3, {"qos": 5.0, "age": 0.0})]


async def test_those_that_start_later_go_by_what_was_recorded_not_by_files_that_were_edited_since(broker, tmp_path):
    async with a_site(broker, tmp_path) as site:
        with_weights(site.config)
        await site.start("intake", "prioritizer", "scheduler")
        await site.client.submit(qos="high")
        await site.ranked_under(1)
        site.edit("rankd.toml", "qos = 100", "qos = ?")  # half written
        await site.stop("prioritizer", "scheduler")
        await site.start("prioritizer", "scheduler")
        assert site.full() == [(1, {"age": 1000.0, "qos": 100.0})]
        await site.stop("intake")
        await site.start("intake")
        shown = (await site.client.do("diag.show")).body["configuration"]
        assert (shown["number"], shown["failed"], "rankd.toml" in shown["message"]) == (1, 1, True)
        await site.client.submit()
        site.edit("rankd.toml", "qos = ?", "qos = 300")
        await site.stop("intake")
        await site.start("intake")
        await site.ranked_under(2)
        assert site.full() == [(2, {"age": 1000.0, "qos": 300.0})]
        assert [event for _, event, _ in site.history()] == ["started", "started"]
        await site.stop("intake")
        await site.start("intake")
        assert (await site.reload())["is_new"] is False
        assert [number for number, *_ in site.history()] == [1, 2]


@pytest.mark.parametrize("text", ["", "partitions: []\n"])
async def test_a_queues_file_without_queues_does_not_come_into_force(broker, tmp_path, text):
    """An editor empties a file before it writes it; an intake that started just then took the queues from everybody."""
    async with a_site(broker, tmp_path, "intake", "prioritizer") as site:
        await site.client.submit()
        await site.ranked_under(1)
        (site.config / "queues.yaml").write_text(text)
        reply = await site.client.ask(RELOAD, {})
        assert (reply.status, reply.body["code"]) == (400, "bad_configuration")
        assert "queues.yaml: partitions: the file defines no partition" in reply.body["message"]
        await site.stop("intake")
        await site.start("intake")
        await site.client.submit()
        assert [number for number, *_ in site.history()] == [1]


async def test_a_file_that_is_empty_at_a_start_is_taken_by_a_reload_only(broker, tmp_path):
    """An editor empties a file before it writes it; an intake that starts just then keeps what was recorded."""
    async with a_site(broker, tmp_path, "intake") as site:
        (site.config / "rankd.toml").write_text("")
        await site.stop("intake")
        await site.start("intake")
        shown = (await site.client.do("diag.show")).body["configuration"]
        assert (shown["number"], shown["failed"]) == (1, 1)
        assert shown["message"].startswith("rankd.toml: is empty, and was not when it was recorded")
        assert (await site.reload())["number"] == 2


async def test_an_intake_refuses_files_of_which_nothing_was_ever_recorded(broker, tmp_path):
    async with a_site(broker, tmp_path) as site:
        site.edit("rankd.toml", "period_s", "periods")
        with pytest.raises(ConfigurationError, match="periods"):
            await intake.run(site.options(intake.IntakeOptions), asyncio.Event())
        assert site.history() == []


async def test_nodes_that_know_the_old_rhythm_are_not_lost_by_the_new_one(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        group = GroupCommit(cluster.database, "intake", nothing, nothing)
        watch = NodeWatch(
            Settings(node=NodeSettings(heartbeat_s=30, lost_after_s=0.001)),
            cluster.database,
            cluster.bus,
            group,
            time.time,
        )
        assert watch.has_listened(time.time() + 1)
        watch.use(Settings(node=NodeSettings(heartbeat_s=30, lost_after_s=0.001)))
        assert watch.has_listened(time.time() + 1)
        site = SiteSettings(name="hpc")
        watch.use(Settings(node=NodeSettings(heartbeat_s=0.0001, lost_after_s=0.002), site=site))
        assert watch._registered().cluster == "hpc", "agents learn it with their next heartbeat"
        assert not watch.has_listened(time.time() + 29)
        assert watch.has_listened(time.time() + 31)


ADAPTER = """
[[adapters]]
name = "{name}"
input = "associations"
adapter = "file"
period_s = 1000
options = {{ path = "{name}.csv" }}
"""


async def test_adapters_come_and_go(broker, tmp_path):
    def shares():
        query = 'SELECT account, shares FROM association_share WHERE "user" IS NULL AND generation IS NOT NULL'
        return dict(site.rows(query))

    async with a_site(broker, tmp_path) as site:
        toml = (site.config / "rankd.toml").read_text()
        for name, number in (("one", 7), ("two", 9)):
            (site.config / f"{name}.csv").write_text(f"account,shares\nphysics,{number}\n")
        (site.config / "rankd.toml").write_text(toml + ADAPTER.format(name="one"))
        await site.start("intake", "prioritizer")
        await site.client.until(lambda: shares().get("physics") == 7)
        (site.config / "rankd.toml").write_text(toml + ADAPTER.format(name="two"))
        await site.reload()
        await site.client.until(lambda: shares().get("physics") == 9)
        assert site.rows("SELECT name, state FROM adapter") == [("two", "ok")]
        (site.config / "rankd.toml").write_text(toml)
        await site.reload()
        await site.ranked_under(3)
        assert shares()["physics"] == 1
        assert site.rows("SELECT name FROM adapter") == []


async def test_users_whom_nobody_listed_may_have_no_shares_from_now_on_and_again(broker, tmp_path):
    def fairshare(job):
        return site.rows("SELECT value FROM job_factor WHERE job_id = ? AND factor = 'fairshare'", job)

    async with a_site(broker, tmp_path, "intake", "prioritizer") as site:
        mallory, alice = await site.client.submit("mallory"), await site.client.submit("alice")
        await site.client.until(lambda: {mallory, alice} <= site.ranked())
        await site.client.until(lambda: fairshare(mallory) > [(0.0,)])
        site.edit("rankd.toml", '"default"', '"zero"')
        await site.reload()
        await site.ranked_under(2)
        assert fairshare(mallory) == [(0.0,)]
        assert fairshare(alice) > [(0.0,)]
        trudy = await site.client.submit("trudy")
        await site.client.until(lambda: trudy in site.ranked())
        site.edit("accounts.yaml", "{name: alice}", "{name: alice}, {name: mallory}")
        site.edit("rankd.toml", '"zero"', '"default"')
        await site.reload()
        await site.ranked_under(3)
        assert fairshare(mallory) > [(0.0,)]
        again = await site.client.submit("mallory"), await site.client.submit("trudy")
        await site.client.until(lambda: set(again) <= site.ranked())
        assert fairshare(again[0]) == fairshare(mallory)
        await site.settled()
        evaluated, live = site.dumped()
        assert evaluated == live != []


async def test_an_event_says_who_and_what(broker, tmp_path):
    async with a_site(broker, tmp_path) as site:
        events = await site.client.connection.subscribe("rankd.v1.event.configuration")
        await site.start("intake")
        [first] = json.loads((await events.next_msg(timeout=PATIENCE_S)).data)["events"]
        assert (first["id"], first["event"], first["changes"]) == (1, "started", [])
        site.edit("rankd.toml", "priority = 100", "priority = 50")
        await site.reload()
        [second] = json.loads((await events.next_msg(timeout=PATIENCE_S)).data)["events"]
        assert (second["id"], second["actor"], second["changes"]) == (2, "root", ["qos.high.priority 100 -> 50"])


BROKEN = "[rankd.factors]\nbroken = no_such_module:Broken\n"
WELL = """
from rankd.core.ranking.factor import Per


class Well:
    name, per, lowest, highest = "well", Per.JOB, 0.0, 1.0

    def __init__(self, settings):
        pass

    def values(self, context):
        return context.jobs.ids / 1000.0

    def sql(self):
        return None

    def parameters(self):
        return {}
"""


async def test_a_factor_of_another_package_is_tried_before_it_counts_and_ended_once_it_does_not(
    broker, tmp_path, install
):
    install("no_such_package", "", BROKEN)
    install("well_factor", WELL, "[rankd.factors]\nwell = well_factor:Well\n")
    async with a_site(broker, tmp_path) as site:
        with_weights(site.config)
        await site.start("intake", "prioritizer")
        job = await site.client.submit()
        await site.ranked_under(1)
        site.edit("rankd.toml", "qos = 100", "broken = 1")
        refused = (await site.client.ask(RELOAD, {})).body
        assert refused["code"] == "bad_configuration"
        assert "priority.weights.broken" in refused["message"]
        site.edit("rankd.toml", "broken = 1", "well = 1000")
        await site.reload()
        await site.ranked_under(2)
        query = "SELECT value FROM job_factor WHERE job_id = ? AND factor = 'well'"
        await site.client.until(lambda: site.rows(query, job) == [(job / 1000.0,)])
        [pid] = [plugin.pid for plugin in (await site.prioritizer_diag()).plugins.values()]
        site.edit("accounts.yaml", "{name: bob}", "{name: bob, shares: 2}")
        await site.reload()
        await site.ranked_under(3)
        assert [plugin.pid for plugin in (await site.prioritizer_diag()).plugins.values()] == [pid]
        site.edit("rankd.toml", "well = 1000", "qos = 100")
        await site.reload()
        await site.ranked_under(4)
        await gone(pid)
        await site.stop("intake")
        site.edit("rankd.toml", "qos = 100", "broken = 1")
        await site.start("intake")  # it takes submissions whatever becomes of a stranger's factor
        assert await site.client.submit() == job + 1


LIMITED = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: default, properties: {application.sort.policy: fair}}
          - {name: small, resources: {max: {vcore: "1"}}}
          - {name: many, maxapplications: 2, parent: true, childtemplate: {properties: {priority.offset: "7"}}}
"""


async def test_reloads_one_after_the_other_while_jobs_come_and_start(broker, tmp_path):
    """Queues, partitions, rules, weights and QoS to and fro; nothing breaks, and in the end all adds up."""
    chance = random.Random(11)
    async with a_site(broker, tmp_path, files={"queues.yaml": QUEUES}) as site:
        toml = (site.config / "rankd.toml").read_text()
        more = '[[qos]]\nname = "night"\npriority = 7\n'
        tomls = (toml, toml.replace('"default"', '"zero"'), toml + more, toml.replace("[node]", WEIGHTS + "[node]"))
        await site.start("intake", "prioritizer", "scheduler")
        await site.add_node(64)
        accepted = 0
        for turn in range(30):
            (site.config / "queues.yaml").write_text(chance.choice((QUEUES, OTHER_QUEUES, LIMITED)))
            (site.config / "rankd.toml").write_text(chance.choice(tomls))
            await site.reload()
            jobs = [
                {
                    "command": ["true"],
                    "queue": queue,
                    "qos": qos,
                    "partition": "gpu" if queue == "root.fast" else "default",
                }
                for queue in ("root.default", "root.small", "root.old", "root.new", "root.fast", f"root.many.m{turn}")
                for qos in ("normal", "high", "night")
            ]
            reply = await site.client.do("job.submit", {"jobs": jobs}, chance.choice(("alice", "bob", f"u{turn}")))
            accepted += len(reply.body["accepted"])
        [(last,)] = site.rows("SELECT max(number) FROM configuration")
        await site.ranked_under(last)
        await site.scheduled_under(last)
        await site.settled()
        evaluated, live = site.dumped()
        assert evaluated == live != []
        [(waiting, running)] = site.rows("SELECT sum(state = 'pending'), sum(state = 'allocated') FROM job")
        assert waiting + running == accepted
        assert running > 0
        found = (await site.client.do("diag.show")).body
        assert [part["configuration"]["failed"] for part in (found, found["prioritizer"], found["scheduler"])] == [
            0
        ] * 3
