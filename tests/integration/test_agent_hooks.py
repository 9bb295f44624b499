"""Prologs and epilogs at an agent with real processes; the tests play the intake."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

from integration.test_agent import a_killable_agent, an_agent, an_intake, kill, options_of, start_of
from integration.test_keeper_full_disk import keeper_in
from watch import PATIENCE_S, alive, appears, gone_within

from rankd.core.errors import Refused
from rankd.services.agent.plan import Planner
from rankd.wire.message import NodeHooks

TOLD = 'echo "{word} $SLURM_JOB_ID $SLURM_JOB_USER $RANKD_NODE_NAME" >> {log}'


class Site:
    """The directory with the programs, and the file in which they write that they have run."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.log = tmp_path / "told"

    def program(self, name: str, script: str = "") -> str:
        path = self.path / name
        path.write_text(f"#!/bin/sh\n{TOLD.format(word=name, log=self.log)}\n{script}\n")
        path.chmod(0o755)
        return str(path)

    @property
    def told(self) -> list[str]:
        return [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []


@asynccontextmanager
async def an_intake_with(broker, **hooks):
    async with an_intake(broker) as intake:
        intake.hooks = NodeHooks(**{"timeout_s": PATIENCE_S} | hooks)
        yield intake


async def test_they_run_around_a_job_which_ends_as_it_would_without_them(broker, tmp_path):
    site = Site(tmp_path)
    left = f"setsid sleep 1000 & echo $! > {tmp_path}/left"
    hooks = {"prolog": site.program("prolog", left), "epilog": site.program("epilog")}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sh", "-c", f"echo job >> {site.log}; exit 3")
        end = await intake.ended(1)
    assert (end.exit_status, end.cause, end.drain) == (3, None, None)
    lines = site.log.read_text().splitlines()
    assert lines == ["prolog 1001 alice n1", "job", "epilog 1001 alice n1"]
    assert not alive(int((tmp_path / "left").read_text()))


async def test_a_job_with_a_failing_prolog_does_not_start_and_the_node_is_to_be_drained(broker, tmp_path):
    site = Site(tmp_path)
    hooks = {"prolog": site.program("prolog", "echo; echo no scratch >&2; exit 7"), "epilog": site.program("epilog")}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "touch", str(tmp_path / "ran"))
        end = await intake.ended(1)
        assert intake.of(1, "started") == []
        intake.hooks = NodeHooks(prolog=site.program("slow", "exec sleep 1000"), timeout_s=0.1)
        beats = len(intake.heartbeats)
        await intake.until(lambda: len(intake.heartbeats) > beats + 2)
        await intake.start(2, "touch", str(tmp_path / "ran"))
        late = await intake.ended(2)
        (site.path / "slow").chmod(0o777)
        await intake.start(3, "touch", str(tmp_path / "ran"))
        unsafe = await intake.ended(3)
    assert (end.cause, end.drain) == ("prolog_failed", f"prolog {hooks['prolog']} ended with 7: no scratch")
    assert (late.cause, late.drain) == (
        "prolog_failed",
        f"prolog {site.path}/slow took longer than 0.1 s and was killed",
    )
    assert f"others than its owner can write to {site.path}/slow" in unsafe.drain
    assert site.told == ["prolog", "epilog", "slow"]
    assert not (tmp_path / "ran").exists()


async def test_a_job_that_is_cancelled_during_its_prolog_does_not_start_and_has_an_epilog(broker, tmp_path):
    site = Site(tmp_path)
    wait = f"echo > {tmp_path}/in-$SLURM_JOB_ID; while ! [ -e {tmp_path}/go-$SLURM_JOB_ID ]; do sleep 0.02; done"
    hooks = {"prolog": site.program("prolog", wait), "epilog": site.program("epilog", "echo full; exit 1")}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "touch", str(tmp_path / "ran"))
        await appears(tmp_path / "in-1001")
        await intake.order(starts=[start_of(2, "true")], cancels=[1])
        await intake.order(starts=[start_of(3, "true")])
        await appears(tmp_path / "in-1003")  # by now, the keeper knows that the first one is cancelled
        for job in (1001, 1002, 1003):
            (tmp_path / f"go-{job}").touch()
        end = await intake.ended(1)
    assert (end.cause, end.drain) == ("cancel", f"epilog {hooks['epilog']} ended with 1: full")
    assert site.told[:1] == ["prolog"]
    assert "epilog 1001 alice n1" in site.log.read_text().splitlines()
    assert not (tmp_path / "ran").exists()


async def test_a_job_whose_hooks_are_refused_once_it_is_claimed_takes_no_other_job_with_it(
    broker, tmp_path, monkeypatch
):
    asked, found = [], Planner.job_hooks

    def of(planner, start):
        asked.append(start.allocation)
        if asked.count(start.allocation) > 1 and start.allocation == 1:
            raise Refused("no_such_user", "alice has just been removed", "user")
        return found(planner, start)

    monkeypatch.setattr(Planner, "job_hooks", of)
    site = Site(tmp_path)
    async with (
        an_intake_with(broker, prolog=site.program("prolog")) as intake,
        an_agent(options_of(broker, tmp_path)),
    ):
        await intake.order(starts=[start_of(1, "true"), start_of(2, "true")])
        refused, end = await intake.ended(1), await intake.ended(2)
    assert (refused.cause, refused.message) == ("no_such_user", "alice has just been removed")
    assert (end.exit_status, end.cause) == (0, None)
    assert site.log.read_text().splitlines() == ["prolog 1002 alice n1"]


async def test_each_runs_once_although_the_agent_is_killed_while_they_run(broker, tmp_path):
    site = Site(tmp_path)
    wait = "echo > {0}/in-{1}; while ! [ -e {0}/go-{1} ]; do sleep 0.02; done"
    hooks = {
        "prolog": site.program("prolog", wait.format(tmp_path, "prolog")),
        "epilog": site.program("epilog", wait.format(tmp_path, "epilog")),
    }
    async with an_intake_with(broker, **hooks) as intake:
        for name in ("prolog", "epilog"):
            async with a_killable_agent(broker, tmp_path) as process:
                if name == "prolog":
                    await intake.start(1, "true")
                await appears(tmp_path / f"in-{name}")
                await kill(process)
            (tmp_path / f"go-{name}").touch()
        async with an_agent(options_of(broker, tmp_path)):
            end = await intake.ended(1)
    assert (end.exit_status, end.drain) == (0, None)
    assert site.told == ["prolog", "epilog"]


async def test_the_agent_runs_the_epilog_of_a_job_whose_keeper_is_killed(broker, tmp_path):
    site = Site(tmp_path)
    wait = f"echo > {tmp_path}/in; [ $SLURM_JOB_ID = 1001 ] || exec sleep 1000"
    hooks = {"epilog": site.program("epilog", wait)}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        os.kill(keeper_in(tmp_path / "state"), signal.SIGKILL)
        lost = await intake.ended(1)
        assert (lost.cause, lost.drain) == ("lost", None)
        (tmp_path / "in").unlink()
        await intake.start(2, "true")
        await appears(tmp_path / "in")
        os.kill(keeper_in(tmp_path / "state"), signal.SIGKILL)
        cut = await intake.ended(2)
    assert (cut.exit_status, cut.cause) == (0, None)
    assert "epilog" in cut.drain
    assert "was interrupted" in cut.drain
    assert site.told == ["epilog", "epilog"]


async def test_a_health_check_tells_its_last_line_while_it_fails(broker, tmp_path):
    site = Site(tmp_path)
    check = site.program("check", f"[ -e {tmp_path}/well ] || {{ echo checking; echo no disk >&2; exit 2; }}")
    hooks = {"health_check": check, "health_check_period_s": 0.01}
    async with an_intake_with(broker, **hooks) as intake, an_agent(options_of(broker, tmp_path)):
        await intake.until(lambda: intake.heartbeats and intake.heartbeats[-1].health == "no disk")
        (tmp_path / "well").touch()
        await intake.until(lambda: intake.heartbeats[-1].health == "")
    assert set(site.told) == {"check"}


async def test_a_health_check_ends_with_an_agent_that_is_killed(broker, tmp_path):
    """Its helper ends it, and the next agent ends what has left its process group."""
    site = Site(tmp_path)
    aside = f"setsid sh -c 'echo $$ > {tmp_path}/aside; exec sleep 1000' &"
    wait = f"{aside}\nwhile ! [ -s {tmp_path}/aside ]; do :; done; echo $$ > {tmp_path}/in; exec sleep 1000"
    async with an_intake_with(broker, health_check=site.program("check", wait)) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await appears(tmp_path / "in")
            await kill(process)
        pids = [int((tmp_path / name).read_text()) for name in ("in", "aside")]
        assert await asyncio.to_thread(gone_within, pids[0], PATIENCE_S)
        assert alive(pids[1])
        intake.hooks = NodeHooks(health_check=site.program("next"))
        async with an_agent(options_of(broker, tmp_path)):
            await intake.until(lambda: bool(intake.heartbeats) and intake.heartbeats[-1].health == "")
    assert not alive(pids[1])


async def test_a_prolog_that_outlives_agent_and_keeper_is_ended_by_the_next_agent(broker, tmp_path):
    site = Site(tmp_path)
    hooks = {
        "prolog": site.program("prolog", f"echo $$ > {tmp_path}/in; exec sleep 1000"),
        "epilog": site.program(
            "epilog", f"! grep -q sleep /proc/$(cat {tmp_path}/in)/cmdline || echo both >> {tmp_path}/told"
        ),
    }
    async with an_intake_with(broker, **hooks) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "touch", str(tmp_path / "ran"))
            await appears(tmp_path / "in")
            await kill(process)
            os.kill(keeper_in(tmp_path / "state"), signal.SIGKILL)
        async with an_agent(options_of(broker, tmp_path)):
            lost = await intake.ended(1)
    assert not alive(int((tmp_path / "in").read_text()))
    assert (lost.cause, site.told) == ("lost", ["prolog", "epilog"])
    assert not (tmp_path / "ran").exists()
