"""An agent whose own control group allows less than the machine has: it offers that, and its jobs run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.test_agent import NODE, an_intake, start_of

from rankd.services.keeper.cgroup_file import removed, write
from rankd.services.keeper.cgroup_layout import CPU, own_places

CORES = 0.6
PROGRAM = """
import asyncio, os, sys
from pathlib import Path
for file in sys.argv[4:]:
    Path(file).write_text("0" if file.endswith("tasks") else str(os.getpid()))
from rankd.services.agent.service import AgentOptions, run
asyncio.run(run(AgentOptions(nats=sys.argv[1], name=sys.argv[2], state_dir=Path(sys.argv[3])), asyncio.Event()))
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """The file by which a process steps into a group that may use 0.6 cores."""
    places = [place for place in own_places(CPU) if (place.base / "cgroup.procs").exists()]
    if os.geteuid() != 0 or not places:
        pytest.skip("only root can make such a group, where there are control groups")
    place = min(places, key=lambda place: place.version)
    base = place.base if place.base == place.top else place.base.parent
    group = base / f"rankd-quota-{os.getpid()}"
    agents = group if place.version == 1 else group / "agent"  # version 2: no processes beside groups
    try:
        agents.mkdir(parents=True)
        if place.version == 1:
            write(group / "cpu.cfs_quota_us", str(int(CORES * 100_000)))
        else:
            write(group / "cpu.max", f"{int(CORES * 100_000)} 100000")
    except OSError as error:
        removed([group])
        pytest.skip(f"no group with a quota can be made here: {error}")
    yield agents / "cgroup.procs"
    subprocess.run(["sh", "-c", f"for p in $(cat {group}/cgroup.procs {agents}/cgroup.procs); do kill -9 $p; done"],
                   check=False, capture_output=True)  # fmt: skip
    while removed([group]):
        pass


async def test_an_agent_with_less_than_a_core_offers_one_and_runs_jobs(broker, tmp_path, small_group):
    spin = "import time\nend = time.time() + 2\nwhile time.time() < end: pass\nprint(time.process_time())"
    async with an_intake(broker) as intake:
        agent = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, broker.url, NODE, str(tmp_path / "state"), str(small_group)]
        )
        try:
            await intake.until(lambda: intake.registrations)
            assert intake.registrations[0][1].resources["vcore"] == 1
            await intake.order(starts=[start_of(1, sys.executable, "-c", spin)])  # which asks for one core
            end = await intake.ended(1)
        finally:
            agent.kill()
            await asyncio.to_thread(agent.wait)
    assert (end.exit_status, end.message) == (0, None)
    assert float(Path(end.stdout).read_text()) < 2 * (CORES + 0.2)
