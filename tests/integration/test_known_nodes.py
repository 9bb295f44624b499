"""[nodes] known: who may join, with how much; and reports about what a node was never given. A real intake."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import builder
import pytest
from integration.intake_stage import allocate, an_intake, report, send, until_state
from integration.stage import CONFIG, running, true_in_time
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.core.errors import Unavailable
from rankd.services.agent.service import AgentOptions
from rankd.services.agent.service import run as run_agent


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        yield stage


async def know(stage, tmp_path, known: str) -> None:
    (tmp_path / "config" / "rankd.toml").write_text(CONFIG["rankd.toml"] + f"[nodes]\nknown = {known}\n")
    reply = await stage.ask("rankd.v1.admin.root.config.reload", {})
    assert reply.status is None, reply


async def register(stage, node: str, **resources):
    return await stage.ask(f"rankd.v1.node.{node}.register", {"resources": resources or {"vcore": 2}, "agent": node})


def bounded(stage) -> list[tuple]:
    return stage.rows("SELECT node, reason FROM node_events WHERE event = 'bounded' ORDER BY id")


async def test_a_node_that_is_not_known_is_refused_and_has_no_record(stage, tmp_path, caplog):
    await know(stage, tmp_path, '{ "n[1-2]" = {} }')
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reply = await register(stage, "n3")
            assert (reply.status, reply.body["code"]) == (403, "node_not_known")
    assert caplog.text.count("does not know a node 'n3'") == 1
    assert (await register(stage, "n2")).status is None
    assert stage.rows("SELECT name FROM nodes") == [("n2",)]


async def test_a_larger_offer_is_cut_with_one_event_and_a_note(stage, tmp_path):
    await know(stage, tmp_path, '{ "n1" = { vcore = 4, memory = "1Gi" } }')
    for _ in range(2):
        reply = await register(stage, "n1", vcore=64, memory="512Mi", gpu=8)
        assert reply.body["notes"] == [
            "node 'n1' counts with less than it offers, as [nodes] known says: vcore 4 of 64, no gpu (8)"
        ]
    [(capacity,)] = stage.rows("SELECT capacity FROM nodes")
    assert json.loads(capacity) == {"vcore": 4000, "memory": 512 * 2**20}
    assert bounded(stage) == [("n1", "vcore 4 of 64, no gpu (8)")]
    assert "notes" not in (await register(stage, "n1", vcore=2)).body


async def test_nodes_that_are_there_register_again_after_a_change(stage, tmp_path):
    for node in ("n1", "n2"):
        await register(stage, node, vcore=8)
    await know(stage, tmp_path, '{ "n1" = { vcore = 2 } }')
    beats = [await stage.ask(f"rankd.v1.node.{node}.heartbeat", {"nodes": [node]}) for node in ("n1", "n2")]
    assert [beat.body["code"] for beat in beats] == ["unknown_node", "unknown_node"]
    assert (await register(stage, "n1", vcore=8)).status is None
    assert (await register(stage, "n2", vcore=8)).body["code"] == "node_not_known"
    assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})).status is None
    assert stage.rows("SELECT capacity FROM nodes WHERE name = 'n1'") == [('{"vcore": 2000}',)]
    await know(stage, tmp_path, "{}")
    assert (await register(stage, "n2", vcore=8)).status is None


async def test_forged_reports_change_nothing_and_are_counted_and_logged(stage, tmp_path, caplog):
    job = await stage.submit("alice")
    allocation = await allocate(tmp_path, job, "n1")
    await register(stage, "n2")
    with caplog.at_level(logging.WARNING):
        forged = [report(allocation, job, "ended", exit_status=0), report(99, job, "ended"), report(99, 99, "started")]
        await send(stage, "n2", *forged)
    assert stage.states() == {job: "allocated"}
    assert (await stage.do("diag.show")).body["foreign_reports"] == 3
    assert caplog.text.count("which it was never given") == 1
    await send(stage, "n1", report(allocation, job, "started"), report(allocation, job, "started"))
    await until_state(stage, job, "running")
    assert (await stage.do("diag.show")).body["foreign_reports"] == 3, "its own, also repeated, is not counted"


async def test_an_agent_says_that_its_node_is_not_known_and_joins_once_it_is(stage, broker, tmp_path, caplog):
    await know(stage, tmp_path, '{ "other" = {} }')
    options = AgentOptions(nats=broker.url, name="n1", state_dir=tmp_path / "agent", drain_on_stop_s=0.0,
                           resources={"vcore": 8})  # fmt: skip

    async def refused():
        with suppress(Unavailable):
            return (await ask_health(bus, "agent-n1")).code == "node_not_known"

    with caplog.at_level(logging.WARNING):
        async with Bus(broker.url, "probe") as bus, running(run_agent, options):
            async with asyncio.timeout(PATIENCE_S):
                while not await refused():
                    await asyncio.sleep(0.05)
            assert stage.rows("SELECT name FROM nodes") == []
            await know(stage, tmp_path, '{ "n1" = { vcore = 2 } }')
            await true_in_time(lambda: stage.rows("SELECT capacity FROM nodes") == [('{"vcore": 2000}',)])
            await true_in_time(lambda: "as [nodes] known says: vcore 2 of 8" in caplog.text)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ('{ "n[2-1]" = {} }', "not a valid range"),
        ('{ "n[1-2]" = {}, "n2" = {} }', "'n2' is listed twice"),
        ('{ "n1" = { vcore = "x" } }', "vcore"),
        ('{ "" = {} }', "names no node"),
    ],
)
async def test_a_table_with_errors_is_refused_with_the_place(stage, tmp_path, known, said):
    (tmp_path / "config" / "rankd.toml").write_text(CONFIG["rankd.toml"] + f"[nodes]\nknown = {known}\n")
    reply = await stage.ask("rankd.v1.admin.root.config.reload", {})
    assert reply.body["code"] == "bad_configuration"
    assert said in reply.body["message"]
    assert "nodes.known" in reply.body["message"]
