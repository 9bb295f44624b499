"""``diag.show`` and ``rankd diag``: what the services say of themselves."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack

import builder
import pytest
from integration.stage import NOW, ROOT, a_cluster, connected, ready, rows, running, write_config

from rankd.bus.connection import Bus
from rankd.core.model.setting import SchedulingSettings
from rankd.services.intake import service as intake
from rankd.services.intake.diag_verb import diag_verb
from rankd.services.intake.look_turns import LookTurns
from rankd.services.intake.relay import Relay
from rankd.services.intake.rests import Rests
from rankd.services.prioritizer import service as prioritizer
from rankd.services.runtime.statistic import spread
from rankd.services.scheduler import service as scheduler
from rankd.wire.diag import ConfigurationDiag
from rankd.wire.message import Health


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def rankd(*words: str, status: int = 0) -> str:
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "rankd", *words, stdout=asyncio.subprocess.PIPE)
    printed, _ = await child.communicate()
    assert child.returncode == status
    return printed.decode()


async def well() -> Health:
    return Health(service="intake", ready=True, pid=1)


async def test_all_services_say_how_they_are_doing(broker, tmp_path):
    places = {"nats": broker.url, "db": str(tmp_path / "rankd.db"), "config": write_config(tmp_path / "config")}
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, AsyncExitStack() as services:
        await services.enter_async_context(running(intake.run, intake.IntakeOptions(**places)))
        alone = AsyncExitStack()
        await services.enter_async_context(alone)
        await alone.enter_async_context(running(prioritizer.run, prioritizer.PrioritizerOptions(**places)))
        await services.enter_async_context(running(scheduler.run, scheduler.SchedulerOptions(**places)))
        for service in ("intake", "prioritizer", "scheduler"):
            await ready(bus, service)
        await client.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        for _ in range(2):
            await client.submit()
        allocated = "SELECT count(*) FROM jobs WHERE state = 'allocated'"
        await client.until(lambda: rows(tmp_path / "rankd.db", allocated) == [(2,)])
        said = (await client.do("diag.show", {})).body
        assert said["scheduler"]["started"] == 2
        assert said["scheduler"]["cycles"] >= 2
        assert set(said["scheduler"]["triggers"]) >= {"started up", "submitted", "nodes"}
        assert set(said["scheduler"]["durations"]) - {"prepare"} == {"read", "place", "commit", "cycle"}
        assert not said["scheduler"]["is_stale"]
        assert said["prioritizer"]["passes"] >= 1
        [(newest,)] = rows(tmp_path / "rankd.db", "SELECT max(number) FROM generations")
        assert 0 < said["prioritizer"]["generation"] <= newest
        assert 0 < said["scheduler"]["generation"] <= newest
        assert {"full.rank", "full.read", "full.visible"} <= set(said["prioritizer"]["durations"])
        assert said["prioritizer"]["failing"] == {}
        assert said["adapters"] == []
        refused = await client.do("diag.show", {"reset": True})
        assert (refused.status, refused.body["field"]) == (403, "reset")
        shown = json.loads(await rankd("diag", "--reset", "--admin", "--json", "--nats", broker.url))
        assert shown["scheduler"]["started"] == 2
        begun_again = (await client.do("diag.show")).body
        assert begun_again["scheduler"]["started"] == 0
        assert "nodes" not in begun_again["scheduler"]["triggers"]
        assert begun_again["prioritizer"]["generation"] >= said["prioritizer"]["generation"]
        for service in ("scheduler", "prioritizer"):
            assert begun_again[service]["started_at"] > said[service]["started_at"]
        await alone.aclose()
        assert (await client.do("diag.show")).body["prioritizer"] is None
        printed = await rankd("diag", "--nats", broker.url, status=3)
        assert printed.count("  ready ") == 2
        assert "Prioritizer: no answer" in printed
        assert "jobs started       0, of these 0 backfilled" in printed
        assert json.loads(await rankd("diag", "--json", "--nats", broker.url, status=3))["scheduler"]["started"] == 0


async def test_what_is_not_published_yet_is_the_relays_lag(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        lookers = LookTurns(cluster.database, Rests(time.time), slots=1, per_user=1, waiting=1)
        show = diag_verb(lookers, cluster.bus, well, ConfigurationDiag, lambda: 0, list, time.time).handler
        await cluster.submit(builder.accepted(), builder.accepted(), at=NOW)
        said = await show(ROOT, b"{}")
        assert said.relay.events == 2
        assert said.relay.lag_s == said.at - NOW
        await Relay(cluster.database, cluster.bus, "intake", time.time).run_once()
        said = await show(ROOT, b"{}")
        assert (said.relay.events, said.relay.lag_s) == (0, 0.0)
        assert said.scheduler is said.prioritizer is None


async def test_the_scheduler_counts_what_it_looks_at_and_backfills(broker, tmp_path):
    configuration = builder.configuration(scheduling=SchedulingSettings(stale_after_s=50))
    async with a_cluster(tmp_path, broker.url, configuration) as cluster:
        ranks, starts = cluster.prioritizer(), cluster.scheduler()
        for name in ("n1", "n2"):
            await cluster.add_node(name, vcore=1)
        await cluster.submit(builder.accepted(request={"time_limit_s": 100.0}))
        await ranks.run_once(NOW)
        await starts.run_once(NOW)
        wide, short = builder.accepted(nodes=2), builder.accepted(request={"time_limit_s": 50.0})
        await cluster.submit(wide, at=NOW + 1)
        await cluster.submit(short, short, at=NOW + 2)
        await ranks.run_once(NOW + 3)
        await starts.run_once(NOW + 3)
        said = starts.diag(NOW + 13)
        assert (said.cycles, said.started, said.backfilled, said.reserved) == (2, 2, 1, 1)
        assert (said.looked_at, said.deepest, said.last_cycle_at) == (3, 3, NOW + 3)
        assert (said.generation, said.generation_age_s, said.is_stale, said.stale) == (2, 10.0, False, 0)
        await starts.run_once(NOW + 53)
        said = starts.diag(NOW + 54)
        assert (said.is_stale, said.stale, said.triggers["stale"]) == (True, 1, 1)


def test_percentiles_are_durations_that_were_measured():
    assert spread([5.0]).worst == spread([5.0]).median == 5.0
    found = spread(float(n) for n in range(200, 0, -1))
    assert (found.n, found.median, found.p90, found.p99, found.worst) == (200, 100.0, 180.0, 198.0, 200.0)
