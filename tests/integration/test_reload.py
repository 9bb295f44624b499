"""Another configuration while everything runs: taken whole by all services, or refused with every problem."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager, closing

import builder
import msgspec
import pytest
from integration.stage import connected, ready, rows, running, write_config

from rankd.bus.connection import Bus
from rankd.bus.diag import ask_diag
from rankd.config.configuration import read_configuration
from rankd.config.evaluation import Evaluator, parsed_queues
from rankd.services import intake, prioritizer, scheduler
from rankd.store.configuration import recorded
from rankd.store.dump import dump
from rankd.store.look import open_for_reading
from rankd.wire.diag import SchedulerDiag

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
