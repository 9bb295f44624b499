"""A keeper that is stopped (SIGSTOP): nothing waits for it without bound. It does what it was asked once it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from integration.test_agent import NODE, a_killable_agent, an_agent, an_intake, keeper_of, kill, options_of, stage
from integration.test_agent_stop import a_stoppable_agent
from watch import PATIENCE_S, alive, appears, gone

from rankd.bus.health import ask_health
from rankd.core.errors import Unavailable
from rankd.services.agent import service as agent
from rankd.services.keeper import link as keeper_link
from rankd.services.keeper.connection import hello_of, reach
from rankd.services.keeper.orphan import end_kept


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
        assert "did not receive every request" in caplog.text
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
            async with asyncio.timeout(PATIENCE_S):
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
        async with asyncio.timeout(PATIENCE_S):
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
            async with asyncio.timeout(PATIENCE_S):
                await end_kept(state, grace_s=1)
            assert "its jobs are not ended" in caplog.text
            assert alive(pid)
        async with asyncio.timeout(PATIENCE_S):
            while alive(pid):
                await end_kept(state, grace_s=1)


async def test_an_agent_whose_keeper_is_stopped_says_so_and_takes_nothing_until_it_goes_on(
    broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(keeper_link, "SILENT_S", 0.6)
    monkeypatch.setattr(keeper_link, "LOOK_EVERY_S", 0.1)
    async with stage(broker, tmp_path) as intake:
        keeper = keeper_of(await a_job(intake, tmp_path))
        silent = f"keeper {keeper} does not answer: it is stopped or hangs"
        with stopped(keeper):
            await intake.until(lambda: intake.heartbeats and intake.heartbeats[-1].unable == silent)
            health = await ask_health(intake.bus, f"agent-{NODE}")
            assert (health.ready, health.code) == (False, "keeper_silent")
            assert silent in health.detail
            await intake.start(2, "true")
            beats = len(intake.heartbeats)
            await intake.until(lambda: len(intake.heartbeats) > beats + 3)
            assert intake.times_given[2] == 0
        assert (await intake.ended(2)).exit_status == 0
        await intake.until(lambda: intake.heartbeats[-1].unable is None)


async def test_a_keeper_that_was_killed_while_it_was_stopped_is_replaced(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(keeper_link, "SILENT_S", 0.6)
    monkeypatch.setattr(keeper_link, "LOOK_EVERY_S", 0.1)
    async with stage(broker, tmp_path) as intake:
        keeper = keeper_of(await a_job(intake, tmp_path))
        os.kill(keeper, signal.SIGSTOP)
        await intake.until(lambda: intake.heartbeats and intake.heartbeats[-1].unable)
        os.kill(keeper, signal.SIGKILL)
        assert (await intake.ended(1)).cause == "lost"
        await intake.start(2, "true")
        assert (await intake.ended(2)).exit_status == 0


async def test_an_agent_does_not_ping_a_keeper_of_an_older_version(broker, tmp_path, monkeypatch):
    """Such a keeper can't read a ping, and would count as silent."""
    monkeypatch.setattr(keeper_link, "SILENT_S", 0.0)
    monkeypatch.setattr(keeper_link, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(keeper_link, "hello_of", lambda said: msgspec.structs.replace(hello_of(said), pongs=False))
    async with stage(broker, tmp_path) as intake:
        await intake.until(lambda: len(intake.heartbeats) > 5)
        await intake.start(1, "true")
        assert (await intake.ended(1)).exit_status == 0
        assert {beat.unable for beat in intake.heartbeats} == {None}
