"""An intake leaves while its database stands still, and only then: the other intakes answer meanwhile."""

import asyncio
import os
import signal
import threading
from contextlib import asynccontextmanager

from integration.lease_stage import new_database, rows
from integration.stage import PATIENCE_S, connected
from nats.errors import NoRespondersError

from rankd.bus.connection import Bus
from rankd.bus.endpoint import Endpoints, Verb
from rankd.core.admission.submitter import Submitter
from rankd.core.model.service_setting import NodeSettings
from rankd.core.model.setting import Settings
from rankd.services.intake import offer as offer_module
from rankd.services.intake.node_watch import NodeWatch
from rankd.services.intake.offer import Offer
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.postgres import READERS, PostgresDatabase

LOST_AFTER_S = 1_000.0
CONNECTED = """SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


class Site:
    """An intake's offer of one verb, and its watch over nodes, by a clock that tests set forward."""

    now = 0.0

    def __init__(self, url, database, bus, client, requests):
        self.url, self.database, self._client = url, database, client
        group = GroupCommit(database, None, nothing, nothing)
        self.nodes = NodeWatch(
            Settings(node=NodeSettings(lost_after_s=LOST_AFTER_S)), database, bus, group, lambda: self.now
        )
        endpoints = Endpoints(bus, requests, "1.0.0", lambda: None, enter)
        self.offer = Offer(endpoints, database, [Verb("job.test", answer)], self.nodes.hear)

    async def answers(self):
        try:
            return (await self._client.do("job.test")).body == {"here": True}
        except NoRespondersError:
            return False

    def wait_and_hear(self, seconds):
        """Whether the silence of nodes counts ``seconds`` later."""
        self.now += seconds
        return self.nodes.has_listened(self.now)


async def nothing(*_):
    """Nobody has to be told."""


async def enter(_subject, _verb):
    return Submitter("alice", privileged=False)


async def answer(_submitter, _payload):
    return {"here": True}


@asynccontextmanager
async def a_site(broker, tmp_path):
    url, drop = new_database()
    async with (
        Bus(broker.url, "intake") as bus, connected(broker.url) as client,
        PostgresDatabase(url, tmp_path) as database, asyncio.TaskGroup() as requests,
    ):  # fmt: skip
        bus.connected_at -= 100 * LOST_AFTER_S
        site = Site(url, database, bus, client, requests)
        await site.offer.begin()
        yield site
        await site.offer.end()
    drop()


async def test_it_leaves_while_the_database_stands_still_and_silence_before_its_return_does_not_count(
    broker, tmp_path, monkeypatch
):
    async with a_site(broker, tmp_path) as site, asyncio.timeout(PATIENCE_S):
        await site.offer.run_once()
        assert await site.answers()
        assert site.wait_and_hear(LOST_AFTER_S)
        monkeypatch.setattr(offer_module, "SILENT_S", 0.2)
        [[server_process]] = rows(site.url, CONNECTED)
        os.kill(server_process, signal.SIGSTOP)
        try:
            await site.offer.run_once()
            assert not await site.answers()
            assert not site.wait_and_hear(2 * LOST_AFTER_S), "it can't hear nodes, however long that lasts"
        finally:
            os.kill(server_process, signal.SIGCONT)
        while not await site.answers():
            await site.offer.run_once()
        assert not site.wait_and_hear(LOST_AFTER_S - 1)
        assert site.wait_and_hear(1)


async def test_many_reads_of_its_own_do_not_make_it_leave(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(offer_module, "SILENT_S", PATIENCE_S)
    go_on = threading.Event()
    async with a_site(broker, tmp_path) as site, asyncio.TaskGroup() as reads:
        for _ in range(2 * READERS):
            reads.create_task(site.database.read(lambda _: go_on.wait()))
        try:
            await asyncio.sleep(0)  # they take all threads, and more of them wait
            await site.offer.run_once()
            assert await site.answers()
        finally:
            go_on.set()
