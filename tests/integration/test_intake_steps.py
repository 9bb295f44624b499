"""Steps at a running intake: it numbers them, and records how they end. The tests play the client and the agent."""

from __future__ import annotations

import json
import time

import builder
import msgspec
import pytest
from integration.intake_stage import allocate, an_intake, report, send

from rankd.core.session.step import StepEnd
from rankd.wire.codec import encode
from rankd.wire.message import ReportMessage
from rankd.wire.session import Grant, Opened
from rankd.wire.subject import node_subject, session_grant

STEPS = "SELECT number, tasks, nodes, command, started_by, ended_at IS NULL, exit_status, cause FROM job_step"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


class Agent:
    """Opens each session that is granted, or refuses it with this error."""

    def __init__(self, stage, node: str) -> None:
        self._stage, self._node = stage, node
        self.grants: list[Grant] = []
        self.error: dict[str, str] | None = None

    async def listen(self) -> None:
        await self._stage.connection.subscribe(session_grant(self._node), cb=self._on_grant)
        await self._stage.connection.flush()

    async def _on_grant(self, message) -> None:
        grant = msgspec.json.decode(message.data, type=Grant)
        self.grants.append(grant)
        opened = {"user": grant.user, "session": grant.session, "status": 200 if self.error is None else 429}
        opened |= {} if self.error is None else {"error": self.error}
        assert msgspec.json.decode(json.dumps(opened), type=Opened)
        await self._stage.ask(node_subject(self._node, "opened"), opened)

    async def end(self, *ends: StepEnd) -> None:
        message = encode(ReportMessage(reports=[], steps=list(ends)))
        reply = await self._stage.ask(node_subject(self._node, "report"), message)
        assert reply.body == {"taken": 0}


async def running(stage, tmp_path, *nodes: str) -> tuple[int, int, list[Agent]]:
    """A job that runs on these nodes, its allocation, and their agents."""
    job = await stage.submit(nodes=len(nodes))
    allocation = await allocate(tmp_path, job, *nodes)
    agents = [Agent(stage, node) for node in nodes]
    for node, agent in zip(nodes, agents, strict=True):
        await agent.listen()
        await send(stage, node, report(allocation, job, "started", time.time(), stdout="/tmp/out"))
    return job, allocation, agents


async def attach(stage, job: int, session: str, user: str = "alice", node: str | None = None, **step):
    wanted = {"command": ["sh", "-c", "exit 3"], "begins": True} | step
    return await stage.do("job.attach", {"id": job, "session": session, "node": node, "step": wanted}, user)


async def test_a_step_has_one_number_on_all_of_its_nodes_and_ends_with_the_last_of_them(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job, allocation, (one, other) = await running(stage, tmp_path, "n1", "n2")
        first = await attach(stage, job, "a" * 16, env={"RANKD_STEP_ID": "forged"})
        again = await attach(stage, job, "a" * 16)
        second = await attach(stage, job, "b" * 16, node="n2", number=0, task=1)
        third = await attach(stage, job, "c" * 16, command=["true"])
        assert [reply.body["step"] for reply in (first, again, second, third)] == [0, 0, 0, 1]
        grants = [*one.grants, *other.grants]
        assert [(grant.wish.number, grant.wish.task) for grant in grants] == [(0, 0), (0, 0), (1, 0), (0, 1)]
        assert [grant.wish.step.env["RANKD_STEP_ID"] for grant in grants] == ["0", "0", "1", "0"]
        assert {grant.wish.step.number for grant in grants} == {None}, "older agents would refuse it"
        at = time.time()
        await one.end(
            StepEnd(allocation=allocation, number=0, at=at, exit_status=0),
            StepEnd(allocation=allocation, number=1, at=at, signal=9),
        )
        command = "sh -c 'exit 3'"
        open_one = (0, 2, 2, command, "alice", 1, 0, None)
        assert stage.rows(STEPS) == [open_one, (1, 1, 1, "true", "alice", 0, None, None)]
        await other.end(StepEnd(allocation=allocation, number=0, task=1, at=at, exit_status=3))
        assert stage.rows(STEPS)[0] == (0, 2, 2, command, "alice", 0, 3, None)
        shown = (await stage.do("job.show", {"id": job})).body
        assert (shown["step_count"], shown["steps"][1]["signal"]) == (2, 9)
        assert shown["steps"][0]["nodelist"] == "n[1-2]"


async def test_a_renewal_begins_no_step(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job, _, [agent] = await running(stage, tmp_path, "n1")
        assert (await attach(stage, job, "a" * 16)).body["step"] == 0
        renewed = await attach(stage, job, "a" * 16, begins=False, number=0)
        assert (renewed.status, renewed.body.get("step")) == (None, None)
        assert (agent.grants[-1].wish.number, len(stage.rows(STEPS))) == (0, 1)


async def test_a_step_that_its_node_does_not_take_has_not_started(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job, _, [agent] = await running(stage, tmp_path, "n1")
        agent.error = {"code": "too_many_sessions", "message": "full"}
        refused = await attach(stage, job, "a" * 16)
        assert (refused.status, refused.body["code"]) == (429, "too_many_sessions")
        assert stage.rows(STEPS) == [(0, 1, 1, "sh -c 'exit 3'", "alice", 0, None, "not_started")]
        agent.error = None
        assert (await attach(stage, job, "a" * 16)).body["step"] == 0, "the same request again"
        assert stage.rows(STEPS) == [(0, 1, 1, "sh -c 'exit 3'", "alice", 1, None, None)]


async def test_strangers_get_no_step_and_see_none(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job, allocation, [agent] = await running(stage, tmp_path, "n1")
        await allocate(tmp_path, await stage.submit(), "n2")
        for step in ({}, {"number": 0}, {"begins": False, "number": 0}):
            refused = await attach(stage, job, "b" * 16, user="bob", **step)
            assert refused.body["code"] == "not_owner"
        assert (agent.grants, stage.rows(STEPS)) == ([], [])
        await attach(stage, job, "a" * 16)
        stranger = Agent(stage, "n2")
        await stranger.end(StepEnd(allocation=allocation, number=0, at=time.time(), exit_status=1))
        assert [row[5] for row in stage.rows(STEPS)] == [1], "another node does not end it"
        as_admin = await stage.ask(
            "rankd.v1.admin.root.job.attach",
            {"id": job, "session": "c" * 16, "step": {"command": ["id"], "begins": True}},
        )
        assert as_admin.body["step"] == 1
        assert stage.rows(STEPS)[1][4] == "root", "the owner sees who looked in"


async def test_requests_for_tasks_and_steps_that_can_not_be(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job, allocation, [agent] = await running(stage, tmp_path, "n1")
        for step, code in (
            ({"task": 128}, "too_many_tasks"),
            ({"task": 2**62}, "too_many_tasks"),
            ({"number": 5}, "unknown_step"),
            ({"command": []}, "empty_command"),
        ):
            refused = await attach(stage, job, "a" * 16, **step)
            assert refused.body["code"] == code
        assert (agent.grants, stage.rows(STEPS)) == ([], [])
        await attach(stage, job, "a" * 16)
        await agent.end(
            *(StepEnd(allocation=allocation, number=0, task=task, at=0.0, exit_status=1) for task in (1, 128, 2**62)),
            StepEnd(allocation=2**62, number=2**62, at=0.0),
        )
        assert [row[5] for row in stage.rows(STEPS)] == [1]
        await send(stage, "n1", report(allocation, job, "ended", time.time(), exit_status=0))
        assert [(row[5], row[7]) for row in stage.rows(STEPS)] == [(0, "job_ended")]
        assert (await attach(stage, job, "b" * 16)).body["code"] == "not_running"
