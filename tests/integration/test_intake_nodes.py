"""Nodes at a running intake: registration, drains, silence, and coming back."""

from __future__ import annotations

import json

import builder
import pytest
from integration.intake_stage import (
    DRAIN,
    RESUME,
    allocate,
    an_intake,
    joined,
    report,
    send,
    story,
    write,
)
from watch import PATIENCE_S


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


async def test_heartbeats_wake_nobody(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        woken = await stage.connection.subscribe("rankd.v1.internal.committed")
        for _ in range(5):
            await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})
        events = await stage.connection.subscribe("rankd.v1.event.job.alice")
        await stage.submit()
        await events.next_msg(PATIENCE_S)
        assert woken.pending_msgs == 1


async def test_nodes_register_once_and_unknown_ones_are_told_to(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        unknown = await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1", "n2"], "key": "k"})
        assert (unknown.status, unknown.body["code"]) == (404, "unknown_node")
        assert "n1, n2" in unknown.body["message"]
        for _ in range(3):
            reply = await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1", "new": 1})
            assert reply.body == {
                "heartbeat_s": 5.0,
                "grace_s": 5.0,
                "max_processes": 4096,
                "outputs_s": 7_776_000.0,
                "orphan_s": 60.0,
            }
        assert stage.rows("SELECT node, event FROM node_events") == [("n1", "joined")]
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 4}, "agent": "n1"})
        assert stage.rows("SELECT event FROM node_events WHERE id > 1") == [("changed",)]
        [(before,)] = stage.rows("SELECT heartbeat_at FROM nodes")
        assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})).status is None
        assert stage.rows("SELECT heartbeat_at > ? FROM nodes", before) == [(1,)]


async def test_a_node_speaks_for_no_other_one(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for name, key in (("n1", "mine"), ("n2", "mine"), ("n3", "other"), ("n4", "")):
            body = {"resources": {"vcore": 2}, "agent": name, "key": key}
            assert (await stage.ask(f"rankd.v1.node.{name}.register", body)).status is None
        write(tmp_path, "UPDATE nodes SET heartbeat_at = 1")
        for verb in ("heartbeat", "leave"):
            for names, key, code in (
                (["n3"], "", "foreign_node"),
                (["n1", "n3"], "", "foreign_node"),
                (["n3"], "mine", "unknown_node"),
                (["n4"], "mine", "unknown_node"),
            ):
                if verb == "heartbeat" or code == "foreign_node":
                    reply = await stage.ask(f"rankd.v1.node.n1.{verb}", {"nodes": names, "key": key})
                    assert (verb, names, reply.body["code"]) == (verb, names, code)
                else:
                    await stage.ask(f"rankd.v1.node.n1.{verb}", {"nodes": names, "key": key})
        assert stage.rows("SELECT name FROM nodes WHERE heartbeat_at > 1 OR state <> 'up'") == []
        assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1", "n2"], "key": "mine"})).status is None
        assert stage.rows("SELECT name FROM nodes WHERE heartbeat_at > 1") == [("n1",), ("n2",)]
        assert (await stage.ask("rankd.v1.node.n2.leave", {"nodes": ["n2", "n1"], "key": "mine"})).status is None
        assert stage.rows("SELECT name, state FROM nodes ORDER BY name") == [
            ("n1", "down"), ("n2", "down"), ("n3", "up"), ("n4", "up")
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"resources": {"vcore": 9e15}}, "bad_quantity"),
        ({"resources": {"vcore": 1_000_001}}, "bad_quantity"),
        ({"resources": {"memory": 2**50 + 1}}, "bad_quantity"),
        ({"resources": {f"kind{number}": 1 for number in range(65)}}, "too_many"),
        ({"resources": {"x" * 254: 1}}, "bad_name"),
        ({"labels": {f"label{number}": "" for number in range(257)}}, "too_many"),
        ({"labels": {"k" * 318: ""}}, "bad_label"),
        ({"labels": {"k": "v" * 64}}, "bad_label"),
        ({"partition": "p" * 254}, "bad_name"),
        ({"agent": ""}, "bad_name"),
        ({"running": list(range(100_001))}, "too_many"),
    ],
)
async def test_what_a_node_says_of_itself_is_bounded_and_logged_once(broker, tmp_path, caplog, given, code):
    async with an_intake(broker, tmp_path) as stage:
        body = {"resources": {"vcore": 2}, "agent": "n1", **given}
        for _ in range(3):
            reply = await stage.ask("rankd.v1.node.n1.register", body)
            assert (reply.status, reply.body["code"]) == (400, code)
        assert stage.rows("SELECT name FROM nodes") == []
        assert len([record for record in caplog.records if "is not registered" in record.message]) == 1


async def test_a_node_ends_no_other_nodes_allocation(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for node in ("n1", "n2"):
            await stage.ask(f"rankd.v1.node.{node}.register", {"resources": {"vcore": 2}, "agent": node})
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n2")
        write(tmp_path, f"UPDATE allocation_nodes SET ended_at = 1 WHERE allocation_id = {allocation}")
        for node, found in (("n1", None), ("n2", [allocation])):
            body = {"resources": {"vcore": 2}, "agent": node, "running": [allocation]}
            assert (await stage.ask(f"rankd.v1.node.{node}.register", body)).body.get("end") == found


async def test_a_node_has_one_agent_at_a_time(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        body = {"resources": {"vcore": 2}, "agent": "first"}
        await stage.ask("rankd.v1.node.n1.register", body)
        taken = await stage.ask("rankd.v1.node.n1.register", {**body, "agent": "second"})
        assert (taken.status, taken.body["code"]) == (409, "node_taken")
        assert "'first'" in taken.body["message"]
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        assert (await stage.ask("rankd.v1.node.n1.register", {**body, "agent": "second"})).status is None
        write(tmp_path, "UPDATE nodes SET heartbeat_at = heartbeat_at - 61")
        assert (await stage.ask("rankd.v1.node.n1.register", body)).status is None
        assert stage.rows("SELECT agent FROM nodes") == [("first",)]


async def test_a_draining_node_that_registers_again_goes_on_draining_without_an_event(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        await stage.ask(DRAIN, {"node": "n1"})
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        assert stage.rows("SELECT state, (SELECT count(*) FROM node_events) FROM nodes") == [("draining", 2)]


@pytest.mark.parametrize("payload", [b"", b"{", b'{"resources": {"vcore": "many"}, "agent": "n1"}', b'{"nodes": 3}'])
async def test_a_node_message_that_can_not_be_read_harms_nobody(broker, tmp_path, payload):
    async with an_intake(broker, tmp_path) as stage:
        for kind in ("register", "heartbeat"):
            assert (await stage.ask(f"rankd.v1.node.n1.{kind}", payload)).status == 400
        assert await stage.submit() == 1


async def test_a_drained_node_stays_so_through_silence_leaving_and_coming_back(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="0.2") as stage:
        await joined(stage, "n1")
        reply = await stage.ask(DRAIN, {"node": "n1", "reason": "new disks"})
        assert reply.body == {"done": ["n1"], "failed": []}
        state = "SELECT state FROM nodes"
        assert stage.rows(state) == [("draining",)]
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        assert stage.rows(state) == [("down",)]
        await joined(stage, "n1")
        assert stage.rows(state) == [("draining",)]
        await stage.until(lambda: stage.rows(state) == [("lost",)])
        await joined(stage, "n1")
        shown = stage.rows("SELECT state, drained_by, drain_reason FROM node")
        assert shown == [("draining", "root", "new disks")]
        assert (await stage.ask(RESUME, {"nodes": ["n1"], "reason": "done"})).body["done"] == ["n1"]
        assert stage.rows("SELECT state, drained_by, drain_reason FROM node") == [("up", None, None)]
        told = stage.rows("SELECT event, actor, reason FROM node_event WHERE event IN ('drain', 'resume')")
        assert told == [("drain", "root", "new disks"), ("resume", "root", "done")]


async def test_a_node_that_is_resumed_while_it_is_away_comes_back_in_use(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        await stage.ask(DRAIN, {"node": "n1"})
        assert stage.rows("SELECT state FROM nodes") == [("down",)]
        await stage.ask("rankd.v1.admin.root.node.undrain", {"node": "n1"})
        await joined(stage, "n1")
        assert stage.rows("SELECT state FROM nodes") == [("up",)]


@pytest.mark.parametrize(
    ("subject", "body", "status", "code"),
    [
        (DRAIN, {"node": "n9"}, 404, "unknown_node"),
        (RESUME, {"node": "n1"}, 409, "not_draining"),
        (DRAIN, {}, 400, "empty_selection"),
        (DRAIN, {"node": "n1", "reason": "x" * 1001}, 400, "too_long"),
        (DRAIN, {"node": "n1", "why": "x"}, 400, "unknown_field"),
        ("rankd.v1.user.alice.node.drain", {"node": "n1"}, 403, "admins_only"),
    ],
)
async def test_a_drain_that_can_not_be_says_why(broker, tmp_path, subject, body, status, code):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        reply = await stage.ask(subject, body)
        assert (reply.status, reply.body["code"]) == (status, code)
        assert stage.rows("SELECT state FROM nodes") == [("up",)]


async def test_some_nodes_can_be_drained_and_others_not(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1", "n2")
        reply = await stage.ask(DRAIN, {"nodes": ["n1", "n9", "n2", "n1"]})
        assert reply.body["done"] == ["n1", "n2"]
        assert [(failed["node"], failed["code"]) for failed in reply.body["failed"]] == [("n9", "unknown_node")]


async def test_events_of_nodes_are_published_once(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        events = await stage.connection.subscribe("rankd.v1.event.node.n1")
        await joined(stage, "n1")
        await stage.ask(DRAIN, {"node": "n1", "reason": "new disks"})
        heard = []
        while len(heard) < 2:
            heard += json.loads((await events.next_msg(PATIENCE_S)).data)["events"]
        assert [(e["id"], e["node"], e["event"], e["actor"], e["reason"]) for e in heard] == [
            (1, "n1", "joined", "n1", None),
            (2, "n1", "drain", "root", "new disks"),
        ]


async def test_who_registers_hears_what_it_runs_that_has_ended_in_the_records(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit() for _ in range(2)]
        running, ended = [await allocate(tmp_path, job, "n1") for job in jobs]
        await send(stage, "n1", report(ended, jobs[1], "ended", exit_status=0))
        body = {"resources": {"vcore": 2}, "agent": "n1", "running": [running, ended, 99]}
        reply = await stage.ask("rankd.v1.node.n1.register", body)
        assert reply.body["end"] == [ended]


async def test_what_a_lost_node_has_not_taken_is_not_given_to_it_when_it_is_back(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="0.2") as stage:
        job = await stage.submit()
        await allocate(tmp_path, job, "n1")
        await stage.until(lambda: story(stage, job)[-1] == "requeue")
        assert stage.rows("SELECT name, state FROM nodes") == [("n1", "lost")]
        beat = await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})
        assert beat.body["code"] == "unknown_node"
        assert (await stage.ask("rankd.v1.node.n1.take", {"agent": "n1"})).body["code"] == "unknown_node"
        await joined(stage, "n1")
        assert (await stage.ask("rankd.v1.node.n1.take", {"agent": "n1", "known": []})).body == {}
