"""Two agents of one name are told apart by their state directories: one of them represents the node."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, closing

import builder
import pytest
from integration.intake_stage import an_intake, options_of
from integration.stage import PATIENCE_S, process

from rankd.services.keeper.orphan import end_kept
from rankd.store.engine.driver import sqlite3

NODE = "rankd.v1.node.n1"
BODY = {"resources": {"vcore": 2}, "agent": "n1"}
FIRST, SECOND = "1" * 32, "2" * 32
REPORT = {"allocation": 1, "job": 1, "kind": "started", "at": 1.0}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def register(stage, instance, **more):
    return await stage.ask(f"{NODE}.register", {**BODY, "instance": instance, **more})


def holders(stage):
    return stage.rows("SELECT instance, state FROM nodes")


async def test_a_second_instance_is_refused_while_the_first_gives_signs_of_life(broker, tmp_path, caplog):
    async with an_intake(broker, tmp_path) as stage:
        assert (await register(stage, FIRST)).status is None
        for _ in range(3):
            refused = await register(stage, SECOND)
            assert (refused.status, refused.body["code"]) == (409, "node_taken")
            assert FIRST in refused.body["message"]
        assert (await register(stage, FIRST)).status is None  # a restart, or its audit
        assert (await register(stage, SECOND)).status == 409
        assert holders(stage) == [(FIRST, "up")]
    complaints = [record.getMessage() for record in caplog.records if "is not registered" in record.getMessage()]
    assert len(complaints) == 1
    assert FIRST in complaints[0]
    assert SECOND in complaints[0]


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("heartbeat", {"nodes": ["n1"]}, "unknown_node"),
        ("take", {"agent": "n1", "known": []}, "unknown_node"),
        ("report", {"reports": [REPORT]}, "node_taken"),
    ],
)
async def test_what_another_instance_asks_or_reports_does_not_count(broker, tmp_path, verb, body, code):
    async with an_intake(broker, tmp_path) as stage:
        await register(stage, FIRST)
        [(heard_at,)] = stage.rows("SELECT heartbeat_at FROM nodes")
        assert (await stage.ask(f"{NODE}.{verb}", {**body, "instance": SECOND})).body["code"] == code
        assert stage.rows("SELECT heartbeat_at FROM nodes") == [(heard_at,)]
        for instance in (FIRST, ""):  # an agent of an older version says no instance
            assert (await stage.ask(f"{NODE}.{verb}", {**body, "instance": instance})).status is None


async def test_another_instance_that_leaves_takes_nothing_down(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await register(stage, FIRST)
        await stage.ask(f"{NODE}.leave", {"nodes": ["n1"], "instance": SECOND})
        assert holders(stage) == [(FIRST, "up")]
        await stage.ask(f"{NODE}.leave", {"nodes": ["n1"], "instance": FIRST})
        assert holders(stage) == [(FIRST, "down")]
        assert (await register(stage, SECOND)).status == 409  # its jobs run on, and it may come back
        assert (await register(stage, FIRST)).status is None
        assert holders(stage) == [(FIRST, "up")]


async def test_an_intake_that_has_just_come_back_gives_the_node_to_nobody_else(broker, tmp_path):
    """It has heard of nobody while it was away."""
    async with an_intake(broker, tmp_path) as stage:
        await register(stage, FIRST)
    async with an_intake(broker, tmp_path) as stage:
        write(stage, "UPDATE nodes SET heartbeat_at = heartbeat_at - 3600")
        assert (await register(stage, SECOND)).status == 409
        assert (await register(stage, FIRST)).status is None


def write(stage, statement):
    with closing(sqlite3.connect(stage.path, timeout=PATIENCE_S)) as connection, connection:
        connection.execute(statement)


@asynccontextmanager
async def an_agent(broker, state):
    """A real one, of the name n1; what its keeper holds is ended with it."""
    options = {"nats": broker.url, "name": "n1", "state": state, "run-as": "agent"}
    async with process("agent", **options) as agent:
        yield agent
    await end_kept(state, grace_s=1)


async def line_with(agent, text: str) -> str:
    """The first line of its log that has the text."""
    async with asyncio.timeout(PATIENCE_S):
        while text not in (line := (await agent.stderr.readline()).decode()):
            assert line, f"it ended without '{text}'"
    return line


def instance_of(state) -> str:
    return (state / "instance").read_text().strip()


async def both_healths(stage) -> dict[bool, dict]:
    """The answers of the two agents of one name, by whether they are ready."""
    inbox = stage.connection.new_inbox()
    answers = await stage.connection.subscribe(inbox)
    found: dict[bool, dict] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < 2:
            await stage.connection.publish("rankd.v1.internal.health.agent-n1", b"", reply=inbox)
            answer = json.loads((await answers.next_msg(PATIENCE_S)).data)
            found[answer["ready"]] = answer
    await answers.unsubscribe()
    return found


async def reloaded(stage, options, setting: str) -> None:
    """Another value for ``node.lost_after_s``."""
    path = options.config / "rankd.toml"
    lines = [setting if line.startswith("lost_after_s") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    reply = await stage.ask("rankd.v1.admin.root.config.reload", {})
    assert reply.status is None, reply


@pytest.mark.timeout(900)
async def test_of_two_real_agents_of_one_name_one_works_and_both_sides_say_why(broker, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    first, second = tmp_path / "first", tmp_path / "second"
    options = options_of(broker, tmp_path)
    async with an_intake(broker, tmp_path) as stage, an_agent(broker, first) as working:
        await line_with(working, "registered n1")
        async with an_agent(broker, second) as waiting:
            said = await line_with(waiting, "represents node 'n1'")
            for part in (instance_of(first), "last heard of at", "--name", "stop the other agent"):
                assert part in said
            healths = await both_healths(stage)
            assert healths[False]["code"] == "node_taken"
            assert instance_of(first) in healths[False]["detail"]
            # the one that works ends as in a crash, and comes back: it is accepted at once, the other one is not
            working.kill()
            await working.wait()
            async with an_agent(broker, first) as again:
                await line_with(again, "registered n1")
                assert holders(stage) == [(instance_of(first), "up")]
                again.kill()
                await again.wait()
            # once it has been silent for long enough, the other one takes over
            await reloaded(stage, options, "lost_after_s = 2\nheartbeat_s = 0.5")
            await line_with(waiting, "registered n1")
            await reloaded(stage, options, "lost_after_s = 60")
            await stage.until(lambda: holders(stage) == [(instance_of(second), "up")])
            async with an_agent(broker, first) as back:
                assert instance_of(second) in await line_with(back, "represents node 'n1'")
            assert holders(stage) == [(instance_of(second), "up")]
    complaints = [record.getMessage() for record in caplog.records if "is not registered" in record.getMessage()]
    assert len([said for said in complaints if f"for the agent with instance {instance_of(second)}" in said]) == 1
    assert len([said for said in complaints if f"for the agent with instance {instance_of(first)}" in said]) == 1
