"""An agent that is told to stop: it leaves its jobs to its keeper, or it ends them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from integration.test_agent import NODE, an_agent, an_intake, directories, options_of
from watch import PATIENCE_S, alive, appears, gone

from rankd.services.agent.service import run
from rankd.wire.message import Heartbeat
from rankd.wire.subject import node_pattern

IGNORES_TERM = "trap '' TERM; echo ready > {0}/ready; while :; do sleep 0.05; done"
UNTIL_TOLD = "echo $$ > {0}/pid; echo begun; read line < {0}/fifo; echo $line"
"""A job that writes, waits until the test writes a line into the pipe, and writes that."""


@asynccontextmanager
async def a_stoppable_agent(options):
    """Gives the events that stop it and that hurry it, and its task."""
    stop, hurry = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE_S):
        task = group.create_task(run(options, stop, hurry))
        try:
            yield stop, hurry, task
        finally:
            stop.set()


async def begun(intake, tmp_path: Path) -> int:
    """A job that waits for a line; its process."""
    os.mkfifo(tmp_path / "fifo")
    await intake.start(1, "sh", "-c", UNTIL_TOLD.format(tmp_path))
    await intake.started(1)
    return int(await appears(tmp_path / "pid"))


async def tell(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "fifo").write_text, "told\n")


async def test_a_stopped_agent_leaves_its_jobs_and_the_next_one_reports_their_ends(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with an_agent(options_of(broker, tmp_path, drain_on_stop_s=None)):
            pid = await begun(intake, tmp_path)
        gc.collect()  # a process that is left running without a word fails this test by Python's warning
        assert alive(pid)
        assert not intake.of(1, "ended")
        async with an_agent(options_of(broker, tmp_path)):
            await intake.until(lambda: len(intake.registrations) == 2)
            assert intake.registrations[1][1].running == [1]
            await tell(tmp_path)
            end = await intake.ended(1)
        assert (end.exit_status, end.cause) == (0, None)
        assert Path(end.stdout).read_text() == "begun\ntold\n"
    assert directories(tmp_path) == []


async def test_a_job_that_ends_while_there_is_no_agent_is_reported_by_the_next_one(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with an_agent(options_of(broker, tmp_path, drain_on_stop_s=None)):
            pid = await begun(intake, tmp_path)
        await tell(tmp_path)
        await gone(pid)
        async with an_agent(options_of(broker, tmp_path)):
            end = await intake.ended(1)
        assert (end.exit_status, end.cause) == (0, None)
        assert Path(end.stdout).read_text() == "begun\ntold\n"


async def test_an_agent_that_drains_waits_for_its_jobs_and_says_all_the_while_that_it_is_leaving(broker, tmp_path):
    leaving = 0

    async def on_leave(message) -> None:
        nonlocal leaving
        assert msgspec.json.decode(message.data, type=Heartbeat).nodes == [NODE]
        leaving += 1
        await message.respond(b'{"heartbeat_s": 0.1, "grace_s": 0.4}')
        await intake._tell()

    async with an_intake(broker) as intake:
        await intake.bus.client.subscribe(node_pattern("leave"), cb=on_leave)
        async with a_stoppable_agent(options_of(broker, tmp_path, drain_on_stop_s=600.0)) as (stop, _, task):
            await begun(intake, tmp_path)
            await intake.until(lambda: intake.heartbeats)
            stop.set()
            await intake.until(lambda: leaving > 2)
            await tell(tmp_path)
            await task
        assert (intake.of(1, "ended")[0].exit_status, intake.of(1, "ended")[0].cause) == (0, None)


async def test_the_wait_of_an_agent_that_drains_is_bounded(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with a_stoppable_agent(options_of(broker, tmp_path, drain_on_stop_s=0.2)):
            pid = await begun(intake, tmp_path)
        assert (intake.of(1, "ended")[0].cause, intake.of(1, "ended")[0].signal) == ("agent_stopped", signal.SIGTERM)
        assert not alive(pid)


async def test_a_second_signal_ends_the_wait_and_the_grace_time(broker, tmp_path):
    async with an_intake(broker) as intake:
        intake.grace_s = 600.0
        async with a_stoppable_agent(options_of(broker, tmp_path, drain_on_stop_s=600.0)) as (stop, hurry, task):
            await intake.start(1, "sh", "-c", IGNORES_TERM.format(tmp_path))
            await appears(tmp_path / "ready")
            stop.set()
            hurry.set()
            await task
        assert (intake.of(1, "ended")[0].cause, intake.of(1, "ended")[0].signal) == ("agent_stopped", signal.SIGKILL)


async def test_a_second_signal_ends_the_grace_time_that_has_begun(broker, tmp_path):
    told = f"trap 'echo told > {tmp_path}/told' TERM; echo ready > {tmp_path}/ready; while :; do sleep 0.05; done"
    async with an_intake(broker) as intake:
        intake.grace_s = 600.0
        async with a_stoppable_agent(options_of(broker, tmp_path)) as (stop, hurry, task):
            await intake.start(1, "sh", "-c", told)
            await appears(tmp_path / "ready")
            stop.set()
            await appears(tmp_path / "told")
            hurry.set()
            await task
        assert (intake.of(1, "ended")[0].cause, intake.of(1, "ended")[0].signal) == ("agent_stopped", signal.SIGKILL)


async def test_an_agent_that_waits_for_its_broker_stops_when_it_is_told(broker, tmp_path):
    broker.kill()
    async with a_stoppable_agent(options_of(broker, tmp_path)) as (stop, _, task):
        stop.set()
        await task


async def test_a_stopped_agent_says_which_jobs_run_on_and_what_to_do_about_them(broker, tmp_path, caplog):
    async with an_intake(broker) as intake:
        async with an_agent(options_of(broker, tmp_path, drain_on_stop_s=None)):
            await begun(intake, tmp_path)
        [said] = [record.message for record in caplog.records if "without this agent" in record.message]
        for text in ("1 job runs on", "1001", f"--state {tmp_path}/state", "rankd cancel JOB", "--drain-on-stop"):
            assert text in said
        async with an_agent(options_of(broker, tmp_path)):
            await intake.until(lambda: len(intake.registrations) == 2)
            await tell(tmp_path)
            await intake.ended(1)
