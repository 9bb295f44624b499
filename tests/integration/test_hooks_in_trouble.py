"""Prologs and epilogs on a node that is started again, whose disk is full, and that do odd things themselves."""

from __future__ import annotations

import os
import signal

import pytest
from integration.test_agent import a_killable_agent, an_agent, kill, options_of
from integration.test_agent_hooks import Site, an_intake_with
from integration.test_keeper_full_disk import MIB, fill, keeper_in, mounted
from watch import alive, appears

STAYS = "echo $$ > {0}/in-{1}; exec sleep 1000"


@pytest.mark.parametrize("during", ["prolog", "epilog"])
async def test_a_node_that_is_started_again_in_the_middle_runs_neither_of_them_twice(broker, tmp_path, during):
    """The state directory outlives a restart of the node, no process does."""
    site = Site(tmp_path)
    hooks = {name: site.program(name, STAYS.format(tmp_path, name) if name == during else "") for name in HOOKS}
    async with an_intake_with(broker, **hooks) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sh", "-c", f"echo job >> {site.log}; exit 3")
            pid = int(await appears(tmp_path / f"in-{during}"))
            await kill(process)
            os.kill(keeper_in(tmp_path / "state"), signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
        for left in (tmp_path / "state").glob("keeper.socket"):
            left.unlink()
        site.program(during)
        async with an_agent(options_of(broker, tmp_path)):
            end = await intake.ended(1)
            await intake.start(2, "true")  # it takes further jobs
            assert (await intake.ended(2)).exit_status == 0
    if during == "prolog":
        assert (end.cause, end.drain, site.told) == ("lost", None, ["prolog", "epilog", "prolog", "epilog"])
    else:
        assert (end.exit_status, end.cause) == (3, None)
        assert "was interrupted" in end.drain
        assert site.told == ["prolog", "job", "epilog", "prolog", "epilog"]


HOOKS = ("prolog", "epilog")


async def test_on_a_full_disk_a_job_that_has_come_has_its_prolog_and_its_epilog_once(broker, tmp_path):
    site = Site(tmp_path)
    wait = f"echo > {tmp_path}/in; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"
    hooks = {"prolog": site.program("prolog", wait), "epilog": site.program("epilog")}
    output = {"stdout": f"{tmp_path}/out", "stderr": f"{tmp_path}/out"}
    with mounted(tmp_path / "state") as disk:
        async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
            await intake.start(1, "sh", "-c", f"echo job >> {site.log}; exit 3", **output)
            await appears(tmp_path / "in")
            fill(disk / "filler")
            (tmp_path / "go").touch()
            end = await intake.ended(1)
            (disk / "filler").unlink()
            await intake.start(2, "true", **output)
            assert (await intake.ended(2)).exit_status == 0
    assert (end.exit_status, end.cause, end.drain) == (3, None, None)
    assert site.told == ["prolog", "job", "epilog", "prolog", "epilog"]


ODD = {
    "much output": (f"head -c {MIB} /dev/zero | tr '\\0' x; echo; echo much; exit 1", "much"),
    "control characters": (
        "printf 'red \\033[31m \\r\\007\\000\\302\\233 \\342\\200\\256 \\377\\n'; exit 1",
        "red \\u001b[31m \\r\\u0007\\u0000\\u009b \\u202e \N{REPLACEMENT CHARACTER}",
    ),
    "closed output": ("exec >&- 2>&-; exit 1", None),
    "a child with the output": ("echo left; setsid sleep 1000 & echo $! > {0}/child; exit 1", "left"),
}


@pytest.mark.parametrize("what", ODD)
async def test_a_program_that_does_odd_things_fails_with_what_it_has_said(broker, tmp_path, what):
    site = Site(tmp_path)
    script, said = ODD[what]
    hooks = {"prolog": site.program("prolog", script.replace("{0}", str(tmp_path)))}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "true")
        end = await intake.ended(1)
    assert end.cause == "prolog_failed"
    assert end.drain == f"prolog {hooks['prolog']} ended with 1" + (f": {said}" if said else "")
    if (child := tmp_path / "child").exists():
        assert not alive(int(child.read_text()))
