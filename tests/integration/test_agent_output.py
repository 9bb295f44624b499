"""A real agent deletes old output files when the intake says so, and keeps those of running jobs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import builder
import pytest
from integration.test_agent import an_agent, options_of
from integration.test_agent_user import needs_root
from integration.test_reload import a_site
from watch import appears, vanishes

from rankd.services.agent.identity import RunAs

DAY = 86_400.0
FOR_EVER = '\n[retention]\noutputs_s = "none"\n'
A_DAY = "\n[retention]\noutputs_s = 86_400\n"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Other users may pass; not below pytest's own directory, which every run of pytest closes again."""
    with tempfile.TemporaryDirectory(prefix="rankd-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def age(path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


async def state_is(site, job: int, state: str) -> None:
    await site.client.until(lambda: site.rows("SELECT 1 FROM job WHERE id = ? AND state = ?", job, state))


AS_DAEMON = RunAs(mode="submitter", otherwise="daemon")


@pytest.mark.parametrize("rights", [RunAs(), pytest.param(AS_DAEMON, marks=needs_root)])
async def test_old_outputs_go_as_soon_as_a_reload_says_so_but_not_a_running_jobs(broker, tmp_path, open_to_all, rights):
    outputs, mine = open_to_all / "state" / "output" / (rights.otherwise or "alice"), open_to_all / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    async with a_site(broker, tmp_path) as site:
        site.edit("rankd.toml", "[node]", f"{FOR_EVER}[node]\nheartbeat_s = 0.2")
        await site.start("intake", "prioritizer", "scheduler")
        async with an_agent(options_of(broker, open_to_all, run_as=rights, resources={"vcore": 4})):
            runs = await site.client.submit(command=["sh", "-c", f"echo on; echo on > {mine}/on; exec sleep 1000"])
            ends = await site.client.submit(command=["echo", "over"])
            own = await site.client.submit(command=["echo", "mine"], stdout=f"{mine}/job-77.out")
            for job, state in ((runs, "running"), (ends, "completed"), (own, "completed")):
                await state_is(site, job, state)
            await appears(mine / "on")
            old = [outputs / f"job-{runs}.out", mine / "job-77.out"]
            over = [outputs / f"job-{ends}.out", outputs / f"job-{ends}.err"]
            for path in old + over:
                age(path, 2)
            site.edit("rankd.toml", FOR_EVER, A_DAY)
            await site.reload()
            for path in over:
                await vanishes(path)
            assert [path.read_text() for path in old] == ["on\n", "mine\n"]
