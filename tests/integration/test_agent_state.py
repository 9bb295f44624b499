"""What is left running by an agent that was killed at the worst moment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest
from integration.test_agent import NODE, an_agent, an_intake, directories, options_of, start_of
from watch import alive, appears

from rankd.services.agent.leftover import STATE_VARIABLE, end_leftovers
from rankd.services.keeper.proc import start_time_of
from rankd.services.keeper.state import AgentState, Claim, ProcessRecord

STATE = f"/state-{os.getpid()}"
"""Tests run side by side: what another one starts has another mark."""


@pytest.fixture
def sleeper():
    """A process that looks like a job of allocation 1 of the state directory STATE."""
    environment = {STATE_VARIABLE: STATE, "RANKD_ALLOCATION_ID": "1", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True)
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.001)  # the kernel shows it a moment after the process has begun
    yield process
    process.kill()
    process.wait()


def test_a_leftover_is_found_by_its_environment(sleeper):
    assert end_leftovers(STATE, [1], [], grace_s=1) == 1
    assert sleeper.wait() == -15


def test_a_leftover_is_found_by_its_record(sleeper):
    record = ProcessRecord(pid=sleeper.pid, start_time=start_time_of(sleeper.pid), started_at=0)
    assert end_leftovers("/elsewhere", [7], [record], grace_s=1) == 1
    assert sleeper.wait() == -15


def test_others_are_left_alone(sleeper):
    other = ProcessRecord(pid=sleeper.pid, start_time=start_time_of(sleeper.pid) + 1, started_at=0)
    assert end_leftovers("/elsewhere", [1], [other], grace_s=1) == 0
    assert end_leftovers(STATE, [2], [], grace_s=1) == 0
    assert alive(sleeper.pid)


def test_a_leftover_that_ignores_term_is_killed(tmp_path):
    environment = {STATE_VARIABLE: STATE, "RANKD_ALLOCATION_ID": "2", "PATH": os.environ["PATH"]}
    script = f"trap '' TERM; echo ready > {tmp_path}/ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(["sh", "-c", script], env=environment, start_new_session=True)
    asyncio.run(appears(tmp_path / "ready"))
    end_leftovers(STATE, [2], [], grace_s=0.1)
    assert process.wait() == -9


async def test_killed_between_claim_and_acknowledgement_is_not_started_by_the_next(broker, tmp_path):
    """The order was never acknowledged, so it comes again, and its directory is all that is known of it."""
    ran = tmp_path / "ran"
    async with an_intake(broker) as intake:
        await intake.order(starts=[start_of(1, "touch", str(ran))])
        with AgentState(tmp_path / "state") as state:
            state.claim([Claim(allocation=1, job=1001)])
        async with an_agent(options_of(broker, tmp_path)):
            end = await intake.ended(1)
            assert (end.cause, end.job, end.started_at) == ("lost", 1001, None)
            await intake.start(2, "true")
            await intake.ended(2)
    assert not ran.exists()
    assert directories(tmp_path) == []
    assert len(intake.of(1, "ended", NODE)) == 1
