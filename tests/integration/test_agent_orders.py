"""Signals and time limits of running jobs at an agent with real processes; the tests play the intake."""

from __future__ import annotations

from pathlib import Path

import msgspec
from integration.test_agent import a_killable_agent, an_agent, an_intake, kill, options_of, stage, start_of
from watch import appears

from rankd.wire.message import JobOrder

WAITS = "i=0; while [ $((i += 1)) -lt 30000 ]; do sleep 0.02; done"
"""Ten minutes: if the test run is killed, the job's processes still end."""
COUNTS = f"trap 'echo one >>usr1' USR1; (trap 'echo child >>usr1' USR1; {WAITS}) & echo up >ready; "


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


async def test_each_process_gets_a_signal_once_also_if_the_order_is_repeated_and_the_agent_killed(broker, tmp_path):
    seen = tmp_path / "usr1"
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sh", "-c", COUNTS + WAITS, cwd=str(tmp_path))
            await appears(tmp_path / "ready")
            intake.loses_carried_out = True
            await intake.order(orders=[JobOrder(id=5, allocation=1, signal=10)])
            await intake.until(lambda: 5 in intake.carried_out)
            await kill(process)
        intake.loses_carried_out = False
        async with an_agent(options_of(broker, tmp_path, drain_on_stop_s=None)):
            await intake.order(orders=[JobOrder(id=6, allocation=1, signal=12)])
            end = await intake.ended(1)
        assert {5, 6} <= intake.carried_out
    assert lines(seen) == ["child", "one"]
    assert end.signal == 12


async def test_a_new_time_limit_holds_and_one_that_has_passed_ends_the_job(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start_of(1, "sleep", "1000", time_limit_s=900.0), start_of(2, "sleep", "1000")])
        await intake.started(1)
        await intake.started(2)
        await intake.order(orders=[JobOrder(id=1, allocation=1, time_limit_s=0.01)])
        assert (await intake.ended(1)).cause == "timeout"
        await intake.order(orders=[JobOrder(id=2, allocation=2, time_limit_s=0.01)])
        assert (await intake.ended(2)).cause == "timeout"


async def test_a_node_that_only_holds_a_place_is_not_ended_by_a_signal(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        held = start_of(1, "script", nodes=["n0", "n1"], rank=1)
        await intake.order(starts=[msgspec.structs.replace(held, holds=True)])
        await intake.started(1)
        await intake.order(orders=[JobOrder(id=1, allocation=1, signal=10)])
        await intake.until(lambda: 1 in intake.carried_out)
        await intake.order(cancels=[1])
        assert (await intake.ended(1)).cause == "cancel"
