"""Steps at an agent with real processes: what it reports of their ends. The tests play the intake and the client."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import msgspec
import pytest
from integration.test_agent import a_killable_agent, an_agent, an_intake, keeper_of, kill, options_of
from watch import PATIENCE_S, appears

from rankd.core.session.step import LOST, NOT_STARTED
from rankd.services.agent import attach_session
from rankd.wire.codec import encode
from rankd.wire.session import END, GRANTED_S, STREAM, Alive, AttachWish, Grant, Leave, Opened, Step
from rankd.wire.subject import node_subject, session_grant, session_in, session_out

AGAIN_S = 0.2


class Client:
    """Grants itself sessions with the job of allocation 1 on n1, as the intake would, and hears what they send."""

    def __init__(self, intake) -> None:
        self._intake = intake
        self.opened: set[str] = set()
        self.heard: dict[str, bytes] = {}
        self.ends: dict[str, int] = {}
        """How often the agent said that its standard output has ended."""

    async def listen(self) -> None:
        await self._intake.bus.client.subscribe(node_subject("n1", "opened"), cb=self._on_opened)
        await self._intake.bus.client.flush()

    async def _on_opened(self, message) -> None:
        opened = msgspec.json.decode(message.data, type=Opened)
        self.opened.add(opened.session)
        await message.respond(encode({"taken": 1}))

    async def grant(self, session: str, number: int, *command: str, task: int = 0, begins: bool = True) -> None:
        """Repeated until an agent has opened it."""
        step = Step(command=list(command), env={"RANKD_STEP_ID": str(number)}, begins=begins)
        grant = Grant(
            user="alice", node="n1", job=1001, attempt=1, allocation=1, owner="alice", session=session, issued_at=0.0,
            expires_at=GRANTED_S, started_at=None, state="running",
            wish=AttachWish(step=step, number=number, task=task),
        )  # fmt: skip
        self.opened.discard(session)
        async with asyncio.timeout(PATIENCE_S):
            while session not in self.opened:
                await self._intake.bus.publish(session_grant("n1"), grant)
                await asyncio.sleep(AGAIN_S)

    async def hear(self, session: str) -> None:
        out = session_out("alice", "n1", session)

        async def on_message(message) -> None:
            if STREAM in (message.headers or {}):
                self.heard[session] = self.heard.get(session, b"") + message.data
                is_end = message.headers.get(END) == "true" and message.headers[STREAM] == "stdout"
                self.ends[session] = self.ends.get(session, 0) + is_end
                await self._intake._tell()

        await self._intake.bus.client.subscribe(out, cb=on_message)
        await self.say(session, Alive())

    async def say(self, session: str, message) -> None:
        client = self._intake.bus.client
        out = session_out("alice", "n1", session)
        await client.publish(session_in("alice", "n1", session), encode(message), reply=out)
        await client.flush()

    async def begin(self, session: str, number: int, *command: str, task: int = 0) -> None:
        await self.grant(session, number, *command, task=task)
        await self.hear(session)


@asynccontextmanager
async def playing(broker):
    async with an_intake(broker) as intake:
        client = Client(intake)
        await client.listen()
        yield intake, client


def ends(intake):
    return [(end.allocation, end.number, end.task, end.exit_status, end.signal, end.cause) for end in intake.steps]


async def test_each_end_is_reported_with_its_number(broker, tmp_path):
    async with playing(broker) as (intake, client), an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sleep", "1000", slurm_env=True)
        await intake.started(1)
        await client.begin("s0", 7, "sh", "-c", "echo $RANKD_STEP_ID $SLURM_STEP_ID $SLURM_STEPID; exit 3", task=2)
        await intake.until(lambda: intake.steps and client.heard.get("s0") == b"7 7 7\n")
        await client.begin("s1", 8, "sh", "-c", "kill -9 $$")
        await intake.until(lambda: len(intake.steps) == 2)
        await client.begin("s2", 9, "no-such-command")
        await intake.until(lambda: len(intake.steps) == 3)
        assert ends(intake) == [
            (1, 7, 2, 3, None, None), (1, 8, 0, None, 9, None), (1, 9, 0, 127, None, NOT_STARTED)
        ]  # fmt: skip
        assert all(end.at > intake.of(1, "started")[0].at for end in intake.steps)


async def test_a_step_ends_before_its_job_is_reported_to_have_ended(broker, tmp_path):
    async with playing(broker) as (intake, client), an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        await client.begin("s0", 0, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
        await intake.until(lambda: client.heard.get("s0") == b"ready\n")
        await intake.order(cancels=[1])
        await intake.ended(1)
        assert ends(intake) == [(1, 0, 0, None, 9, None)]


async def test_a_step_whose_client_does_not_begin_it_is_reported_as_not_started(broker, tmp_path):
    async with playing(broker) as (intake, client), an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        await client.grant("s0", 4, "true")
        await client.say("s0", Leave())
        await intake.until(lambda: intake.steps)
        assert ends(intake) == [(1, 4, 0, None, None, NOT_STARTED)]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_what_a_killed_agent_has_not_reported_the_next_one_does(broker, tmp_path, monkeypatch, has_begun):
    monkeypatch.setattr(attach_session, "MOST_ABSENT_S", 0.3)
    go, gone = tmp_path / "go", tmp_path / "gone"
    async with playing(broker) as (intake, client):
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sleep", "1000")
            await intake.started(1)
            await client.grant(
                "s0", 5, "sh", "-c", f"echo ready; until [ -e {go} ]; do sleep 0.05; done; echo > {gone}; exit 6"
            )
            if has_begun:
                await client.hear("s0")
                await intake.until(lambda: client.heard.get("s0") == b"ready\n")
            await kill(process)
        go.touch()
        if has_begun:
            await appears(gone)
        async with an_agent(options_of(broker, tmp_path)):
            if not has_begun:  # the client renews, and does not begin it a second time
                await client.grant("s0", 5, "true", begins=False)
                await client.hear("s0")
            await intake.until(lambda: intake.steps)
            expected = (1, 5, 0, 6, None, None) if has_begun else (1, 5, 0, None, None, LOST)
            assert ends(intake)[0] == expected


async def test_what_neither_agent_nor_keeper_has_outlived_is_reported_by_the_next_ones(broker, tmp_path):
    """The step ends while no agent is there, then its job, then the keeper."""
    go, pid = tmp_path / "go", tmp_path / "pid"
    async with playing(broker) as (intake, client):
        async with a_killable_agent(broker, tmp_path) as process:
            job = f"echo $$ > {tmp_path}/job; until [ -s {pid} ]; do sleep 0.05; done; "
            job += f"while kill -0 $(cat {pid}); do sleep 0.05; done"
            await intake.start(1, "sh", "-c", job)
            keeper = keeper_of(int(await appears(tmp_path / "job")))
            await intake.started(1)
            step = (
                f"echo $$ > {pid}.new; mv {pid}.new {pid}; echo ready; until [ -e {go} ]; do sleep 0.05; done; exit 6"
            )
            await client.begin("s0", 5, "sh", "-c", step)
            await intake.until(lambda: client.heard.get("s0") == b"ready\n")
            await kill(process)
        go.touch()
        await appears(tmp_path / "state" / "allocations" / "1" / "ended")
        os.kill(keeper, signal.SIGKILL)
        async with an_agent(options_of(broker, tmp_path)):
            await intake.ended(1)
            assert ends(intake) == [(1, 5, 0, 6, None, None)]


async def test_the_end_of_a_step_is_told_again_to_a_client_that_asks(broker, tmp_path):
    """What the agent said before may be lost with its connection."""
    async with playing(broker) as (intake, client), an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        await client.begin("s0", 0, "true")
        await intake.until(lambda: client.ends.get("s0"))
        told = client.ends["s0"]
        await client.say("s0", Alive())
        await intake.until(lambda: client.ends["s0"] > told)
