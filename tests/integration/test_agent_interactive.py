"""Interactive jobs at an agent: killed agents, and clients that vanish. The tests play the intake and the client."""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.test_agent import a_killable_agent, an_agent, an_intake, kill, options_of, stage
from relay_reader import RelayReader
from watch import PATIENCE_S, appears

from rankd.core.model.job import Interactive
from rankd.services.keeper import relay_frame as kinds
from rankd.services.keeper.ring import WINDOW_BYTES


def reader(tmp_path: Path, allocation: int = 1) -> RelayReader:
    return RelayReader(tmp_path / "state" / "sessions" / str(allocation))


async def in_thread(action, *arguments):
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(action, *arguments)


async def test_a_session_goes_on_while_its_agent_is_killed_and_started_again(broker, tmp_path):
    """The relay has the streams, so nothing is lost; the job's end is reported by the next agent."""
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "cat", interactive=Interactive())
            await intake.started(1)
            session = reader(tmp_path).connect()
            session.send(kinds.INPUT, 0, b"before\n")
            await in_thread(session.until, lambda: session.output == b"before\n")
            await kill(process)
        session.send(kinds.INPUT, 7, b"between\n")
        await in_thread(session.until, lambda: session.output.endswith(b"between\n"))
        async with an_agent(options_of(broker, tmp_path, drain_on_stop_s=None)):
            session.connect().send(kinds.INPUT, 0, b"before\nbetween\nafter\n")
            session.send(kinds.INPUT_ENDS, 21)
            assert await in_thread(session.until_end) == 0
            end = await intake.ended(1)
    assert session.output == b"before\nbetween\nafter\n"
    assert Path(end.stdout).read_bytes() == session.output


async def test_a_job_without_its_client_is_hung_up_and_ended(broker, tmp_path):
    async with an_intake(broker) as intake:
        intake.orphan_s = 0.1
        script = "trap 'echo hung up; exit 5' HUP; while :; do sleep 0.05; done"
        async with an_agent(options_of(broker, tmp_path)):
            await intake.start(1, "sh", "-c", script, interactive=Interactive())
            await intake.start(2, "sh", "-c", "trap '' HUP; sleep 1000", interactive=Interactive())
            polite, rude = await intake.ended(1), await intake.ended(2)
    assert (polite.exit_status, Path(polite.stdout).read_text()) == (5, "hung up\n")
    assert polite.cause == "orphaned", "however it has ended: nobody else has ended it"
    assert polite.message == "ended because its client had gone"
    assert (rude.cause, rude.signal) == ("orphaned", 15)


async def test_what_a_hung_up_shell_leaves_gets_its_time(broker, tmp_path):
    """A shell dies of HUP at once. Its child had KILL then, and could write nothing."""
    ready, said = tmp_path / "ready", tmp_path / "said"
    waits = "i=0; while [ $((i += 1)) -lt 30000 ]; do sleep 0.02; done"
    child = f"trap '' HUP; trap 'echo asked >{said}; exit' TERM; echo up >{ready}; {waits}"
    async with an_intake(broker) as intake:
        intake.grace_s = PATIENCE_S
        async with an_agent(options_of(broker, tmp_path)):
            await intake.start(1, "sh", "-c", f"({child}) & wait", interactive=Interactive())
            await appears(ready)
            intake.orphan_s = 0.1
            end = await intake.ended(1)
    assert (end.cause, end.signal) == ("orphaned", 1)
    assert said.read_text() == "asked\n"


async def test_a_job_that_may_run_on_without_its_client_does_not_wait_for_a_reader(broker, tmp_path):
    async with an_intake(broker) as intake:
        intake.orphan_s = 0.1
        async with an_agent(options_of(broker, tmp_path)):
            command = ("head", "-c", str(3 * WINDOW_BYTES), "/dev/zero")
            await intake.start(1, *command, interactive=Interactive(detach_ok=True))
            end = await intake.ended(1)
    assert (end.exit_status, end.cause) == (0, None)
    assert Path(end.stdout).stat().st_size == 3 * WINDOW_BYTES


async def test_only_the_first_node_has_input(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        from integration.test_agent import start_of

        await intake.order(starts=[start_of(1, "cat", nodes=["n0", "n1"], rank=1, interactive=Interactive())])
        assert (await intake.ended(1)).exit_status == 0
