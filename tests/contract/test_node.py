"""Nodes: registration, signs of life, drains, and what they use."""

import msgspec
from builder import NOW
from contract.store import Store
from contract.world import RUNNING, allocate

from rankd.core.change.node_action import drain, resume
from rankd.core.model.node import NodeState
from rankd.core.model.node_holder import Agent, Holder
from rankd.store.look.drained_node import drained_nodes
from rankd.store.look.site_figures import site_figures
from rankd.store.record.node import (
    holder_of,
    is_noted,
    note_heartbeat,
    of_instance,
    open_allocations_of,
    read_nodes,
    record_node_event,
    register_node,
    set_state,
    silent_nodes,
    strays,
    take_down,
)
from rankd.store.record.node_action import (
    NodeWish,
    act,
    drain_undrained,
    drain_unfit,
    judge_health,
    to_judge,
    undrained,
)
from rankd.wire.message import NodeRegistration

WISH = NodeWish(nodes=["n1", "n9"], actor="root", reason="a fan", at=NOW)


async def events(store: Store):
    rows = sorted(await store.rows("node_event"), key=lambda row: row["id"])
    return [(row["node"], row["event"]) for row in rows]


async def test_a_registration_adds_or_changes_a_node(store):
    await store.add_nodes("n1", instance="i1")
    await store.add_nodes("n1", instance="i1", at=NOW + 5)
    await store.add_nodes("n1", instance="i2", labels={"gpu": "a100"}, resources={"vcore": 8, "gpu": 2})
    assert await events(store) == [("n1", "joined"), ("n1", "changed")]
    [node], _ = await store.read(read_nodes)
    assert (node.capacity, node.labels, node.state) == ({"vcore": 8000, "gpu": 2}, {"gpu": "a100"}, NodeState.UP)
    holder = Holder(agent=Agent(name="n1", instance="i2"), state=NodeState.UP, heard_at=NOW)
    assert await store.read(holder_of, "n1") == holder
    assert await store.read(holder_of, "n2") is None


async def test_an_agent_speaks_for_the_nodes_of_its_instance(store):
    await store.add_nodes("n1", instance="i1")
    await store.add_nodes("n2", instance="i2")
    assert sorted(await store.read(of_instance, ["n1", "n2", "n3"], "i1")) == ["n1", "n3"]
    assert await store.read(of_instance, ["n1", "n2"], "") == ["n1", "n2"]


async def test_signs_of_life_and_silence(store):
    await store.add_nodes("n1", "n2", "n3")
    assert await store.write(note_heartbeat, ["n1", "n9"], NOW + 100) == ["n9"]
    await store.write(take_down, ["n3"], NOW + 1)
    assert sorted(await store.read(silent_nodes, NOW + 100, 30.0)) == ["n2"]
    assert sorted(await store.read(silent_nodes, NOW - 100, 30.0)) == ["n1", "n2"], "the clock was set back"
    assert await store.write(note_heartbeat, ["n3"], NOW + 100) == ["n3"], "it is down: its agent registers again"


async def test_a_node_that_is_down_is_silent_as_long_as_it_has_jobs(world):
    await world.write(take_down, ["n1"], NOW)
    assert await world.read(silent_nodes, NOW + 100, 30.0) != []
    assert "n1" in await world.read(silent_nodes, NOW + 100, 30.0)


async def test_states_change_once(store):
    await store.add_nodes("n1")
    await store.write(set_state, "n1", NodeState.LOST, NOW, "intake")
    await store.write(set_state, "n1", NodeState.LOST, NOW, "intake")
    await store.write(record_node_event, "n1", "noted", NOW, "root", "a word")
    assert await events(store) == [("n1", "joined"), ("n1", "lost"), ("n1", "noted")]
    asked = [("n1", "noted", "a word"), ("n1", "noted", "another"), ("n1", "lost", "a word"), ("n2", "noted", "a word")]
    assert [await store.read(is_noted, *one) for one in asked] == [True, False, False, False]


async def test_a_drain_stays_until_it_is_resumed(store):
    await store.add_nodes("n1", "n2")
    reply = await store.write(act, WISH, drain)
    assert (reply.done, [failed.code for failed in reply.failed]) == (["n1"], ["unknown_node"])
    await store.write(act, msgspec.structs.replace(WISH, reason=None), drain)
    await store.write(register_node, "n1", NodeRegistration(resources={"vcore": 4}, agent="n1"), NOW)
    assert await store.read(undrained, ["n1", "n2"]) == ["n2"]
    assert await store.write(drain_undrained, ["n1", "n2"], "intake", "no keeper", NOW) == ["n2"]
    reasons = {row["name"]: row["drain_reason"] for row in await store.rows("node")}
    assert reasons == {"n1": "a fan", "n2": "no keeper"}
    assert (await store.write(act, WISH, resume)).done == ["n1"]
    assert [failed.code for failed in (await store.write(act, WISH, resume)).failed] == ["not_draining", "unknown_node"]
    assert [row["state"] for row in await store.rows("node", name="n1")] == ["up"]


async def test_what_is_in_use(world):
    _, use = await world.read(read_nodes)
    one_device = {"gpu": 1, "gpu:a100": 1}
    assert use.by_node == {"n1": {"vcore": 1000, **one_device}, "n2": {"vcore": 1000}}
    assert list(use.by_queue.values()) == [{"vcore": 2000, **one_device}]
    assert use.by_application == {}
    [(allocation, job)] = await world.read(open_allocations_of, "n1")
    assert job == RUNNING
    assert await world.read(strays, "n1", [allocation]) == []


async def test_what_a_node_runs_although_it_ended_is_a_stray(store):
    await store.add_nodes("n1")
    [job] = await store.submit("alice")
    await allocate(store, job, "n1")
    [taken] = await store.take("n1")
    allocation = taken.starts[0].allocation
    await store.report("n1", allocation, job, "ended", cause="lost")
    assert await store.read(strays, "n1", [allocation, 77]) == [allocation]


async def test_a_node_that_is_unfit_is_drained_with_its_reason_unless_an_administrator_has_done_so(store):
    await store.add_nodes("n1", "n2")
    await store.write(act, WISH, drain)
    for node in ("n1", "n2", "nobody"):
        await store.write(drain_unfit, node, "epilog e ended with 1", NOW)
    reasons = {row["name"]: row["drain_reason"] for row in await store.rows("node")}
    assert reasons == {"n1": "a fan", "n2": "epilog e ended with 1"}


async def test_a_health_check_drains_and_resumes_only_what_nobody_else_has_drained(store):
    async def drains():
        return {row["name"]: row["drain_reason"] for row in await store.rows("node")}

    await store.add_nodes("n1", "n2", "n3")
    names = ["n1", "n2", "n3"]
    await store.write(act, WISH, drain)
    assert await store.write(judge_health, names, "disk full", NOW) == ["n2", "n3"]
    assert await store.write(judge_health, names, "disk fuller", NOW) == []
    assert await drains() == {"n1": "a fan", "n2": "disk full", "n3": "disk full"}
    assert await store.read(drained_nodes) == [f"node {n} is drained by its health check: disk full" for n in names[1:]]
    drained = {row["who"]: row["nodes"] for row in (await store.look(site_figures, 0)).drained}
    assert drained == {"health check": 2, "administrator": 1}
    await store.write(act, NodeWish(nodes=["n3"], actor="ann", reason="mine", at=NOW), drain)
    assert await store.read(to_judge, names, "") == ["n2"]
    assert await store.write(judge_health, names, "", NOW) == ["n2"]
    assert await drains() == {"n1": "a fan", "n2": None, "n3": "mine"}
    assert [row["state"] for row in await store.rows("node", name="n2")] == ["up"]
