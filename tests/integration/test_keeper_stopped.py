"""A keeper that is stopped (SIGSTOP): nothing waits for it without bound. It does what it was asked once it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from integration.test_agent import a_killable_agent, an_agent, an_intake, keeper_of, kill, options_of
from integration.test_agent_stop import a_stoppable_agent
from watch import alive, appears, gone

from rankd.core.errors import Unavailable
from rankd.services import agent, keeper_link
from rankd.services.keeper_end import end_kept
from rankd.services.keeper_socket import reach


@contextmanager
def stopped(pid: int):
    """A process that stands still meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def a_job(intake, tmp_path: Path, allocation: int = 1) -> int:
    """A job that runs on; its process."""
    pid = tmp_path / f"pid{allocation}"
    await intake.start(allocation, "sh", "-c", f"echo $$ > {pid}; exec sleep 1000")
    await intake.started(allocation)
    return int(await appears(pid))


async def test_the_drain_of_an_agent_does_not_wait_for_a_stopped_keeper_for_ever(broker, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(agent, "END_S", 0.1)
    async with an_intake(broker) as intake:
        async with a_stoppable_agent(options_of(broker, tmp_path, drain_on_stop_s=0.0)) as (stop, _, task):
            pid = await a_job(intake, tmp_path)
            with stopped(keeper_of(pid)):
                stop.set()
                await task
                assert alive(pid)
        await gone(pid)
    assert "the keeper has not ended 1 jobs: it is stopped or hangs" in caplog.text


async def test_an_agent_that_stops_does_not_wait_until_a_stopped_keeper_reads(broker, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(keeper_link, "END_S", 0.1)
    async with an_intake(broker) as intake:
        async with a_stoppable_agent(options_of(broker, tmp_path, drain_on_stop_s=None)) as (stop, _, task):
            pid = await a_job(intake, tmp_path)
            with stopped(keeper_of(pid)):
                for allocation in range(2, 12):
                    await intake.start(allocation, "true", env={"LONG": "x" * 100_000})
                await intake.until(lambda: len(intake.times_given) == 11)
                stop.set()
                await task
        assert "was not told everything" in caplog.text
        async with an_agent(options_of(broker, tmp_path)):
            ends = [await intake.ended(allocation) for allocation in range(2, 12)]
        assert {end.cause for end in ends} <= {None, "lost"}
        assert ends[-1].cause == "lost"


async def test_the_end_of_what_is_kept_does_not_wait_for_a_stopped_keeper_for_ever(broker, tmp_path, caplog):
    async with an_intake(broker) as intake, a_killable_agent(broker, tmp_path) as process:
        pid = await a_job(intake, tmp_path)
        keeper = keeper_of(pid)
        await kill(process)
        with stopped(keeper):
            async with asyncio.timeout(60):
                await end_kept(tmp_path / "state", grace_s=1, patience_s=0.1)
            assert alive(pid)
        await gone(pid)
        await gone(keeper)
    assert f"keeper {keeper}, which holds this node's jobs, does not answer" in caplog.text


async def test_the_end_of_what_is_kept_does_not_wait_longer_than_a_keeper_needs(broker, tmp_path, caplog):
    """It has said what it holds, but does not end that within the time."""
    async with an_intake(broker) as intake, a_killable_agent(broker, tmp_path) as process:
        await intake.start(1, "sh", "-c", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")
        await intake.started(1)
        pid = int(await appears(tmp_path / "pid"))
        await kill(process)
        async with asyncio.timeout(60):
            await end_kept(tmp_path / "state", grace_s=600, end_s=-599.9)
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)
    assert "has not ended the jobs of allocations 1 within 0 s" in caplog.text


def fill(line: ExitStack, state: Path) -> None:
    """Connect until no further connection is taken."""
    for _ in range(socket.SOMAXCONN + 2):
        line.enter_context(reach(state))


async def test_nobody_waits_in_the_line_of_a_stopped_keeper(broker, tmp_path, caplog):
    """What connects to it is not accepted; once the line is full, a further connection would wait."""
    state = tmp_path / "state"
    async with an_intake(broker) as intake, a_killable_agent(broker, tmp_path) as process:
        pid = await a_job(intake, tmp_path)
        await kill(process)
        with stopped(keeper_of(pid)), ExitStack() as line:
            with pytest.raises(Unavailable, match="does not answer"):
                fill(line, state)
            async with asyncio.timeout(60):
                await end_kept(state, grace_s=1)
            assert "its jobs are not ended" in caplog.text
            assert alive(pid)
        async with asyncio.timeout(60):
            while alive(pid):
                await end_kept(state, grace_s=1)
