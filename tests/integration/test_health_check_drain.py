"""A node's health check, from the program to the drain: a real agent at a real intake."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import DRAIN, RESUME, an_intake
from integration.stage import true_in_time
from integration.test_agent import an_agent, options_of


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_a_failing_check_drains_its_node_which_resumes_by_itself_unless_an_administrator_has_drained_it(
    broker, tmp_path
):
    well, check = tmp_path / "well", tmp_path / "check"
    check.write_text(f"#!/bin/sh\n[ -e {well} ] && exit 0\necho looking\necho /scratch is full >&2\nexit 1\n")
    check.chmod(0o755)
    hasty = f'60\nheartbeat_s = 0.05\nhealth_check = "{check}"\nhealth_check_period_s = 1.0'
    async with an_intake(broker, tmp_path, lost_after_s=hasty) as stage, an_agent(options_of(broker, tmp_path)):

        def is_node(*expected) -> bool:
            return stage.rows("SELECT state, drained_by, drain_reason FROM nodes") == [expected]

        async def alarms() -> list[str]:
            return (await stage.do("diag.show", {})).body["nodes"]

        await true_in_time(lambda: is_node("draining", "health check", "/scratch is full"))
        assert await alarms() == ["node n1 is drained by its health check: /scratch is full"]
        well.touch()
        await true_in_time(lambda: is_node("up", None, None))
        assert not await alarms()
        well.unlink()
        await true_in_time(lambda: is_node("draining", "health check", "/scratch is full"))
        await stage.ask(DRAIN, {"nodes": ["n1"], "reason": "new disks"})
        assert is_node("draining", "root", "new disks")
        well.touch()
        ran = tmp_path / "ran"
        check.write_text(f"#!/bin/sh\necho >> {ran}\n")
        await true_in_time(lambda: ran.exists() and len(ran.read_text()) > 2)  # two passes, and many heartbeats between
        assert is_node("draining", "root", "new disks")
        assert not await alarms()
        await stage.ask(RESUME, {"nodes": ["n1"]})
        assert is_node("up", None, None)
    assert stage.rows("SELECT count(*) FROM node_events WHERE event = 'drain'") == [(3,)]
