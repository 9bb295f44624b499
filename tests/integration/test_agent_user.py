"""Whose rights jobs have."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from integration.test_agent import NODE, stage, start_of

from rankd.core.errors import Refused
from rankd.services.agent.identity import RunAs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as other users")
SUBMITTER = RunAs(mode="submitter")
SCRIPT = 'id -un; id -G; echo "$HOME $USER $LOGNAME"; pwd; umask'


def of(start, user: str):
    return msgspec.structs.replace(start, user=user)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Other users may look into it; not below pytest's own directory, which every run of pytest closes again."""
    path = Path(tempfile.mkdtemp(prefix="rankd-"))
    path.chmod(0o711)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


@needs_root
async def test_a_job_has_its_submitters_rights_groups_and_home(broker, reachable):
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(start_of(1, "sh", "-c", SCRIPT), "daemon")])
        end = await intake.ended(1)
    daemon = pwd.getpwnam("daemon")
    assert end.exit_status == 0, end
    assert Path(end.stdout).stat().st_uid == daemon.pw_uid
    name, groups, variables, directory, mask = Path(end.stdout).read_text().splitlines()
    assert (name, mask) == ("daemon", "0022")
    assert sorted(map(int, groups.split())) == sorted(os.getgrouplist("daemon", daemon.pw_gid))
    assert variables == f"{daemon.pw_dir} daemon daemon"
    assert directory == daemon.pw_dir


@needs_root
@pytest.mark.parametrize(("user", "cause"), [("nobody-of-that-name", "no_such_user"), ("root", "root_refused")])
async def test_who_is_unknown_here_and_root_are_refused_and_told_what_to_do(broker, reachable, user, cause):
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(start_of(1, "touch", f"{reachable}/ran"), user)])
        end = await intake.ended(1)
    assert (end.cause, end.exit_status) == (cause, 125)
    assert f"'{user}'" in end.message
    assert "submit the job" in end.message
    assert not (reachable / "ran").exists()


@needs_root
async def test_jobs_of_root_run_as_root_only_where_root_is_the_owner(broker, reachable):
    async with stage(broker, reachable, run_as=RunAs(mode="submitter", owner="root")) as intake:
        await intake.order(starts=[of(start_of(1, "id", "-u"), "root"), of(start_of(2, "id", "-un"), "daemon")])
        assert Path((await intake.ended(1)).stdout).read_text() == "0\n"
        assert Path((await intake.ended(2)).stdout).read_text() == "daemon\n"


@needs_root
async def test_who_is_unknown_runs_as_the_user_that_was_named_for_that(broker, reachable):
    rule = RunAs(mode="submitter", otherwise="nobody")
    async with stage(broker, reachable, run_as=rule) as intake:
        await intake.order(starts=[of(start_of(1, "id", "-un"), "alice")])
        end = await intake.ended(1)
    assert Path(end.stdout).read_text() == "nobody\n"


@needs_root
@pytest.mark.parametrize("where", ["cwd", "stdout", "stdin"])
async def test_a_job_opens_nothing_that_its_user_may_not(broker, reachable, where):
    private = reachable / "private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("secret")
    path = str(private if where == "cwd" else private / "file")
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        start = start_of(1, "cat", **{where: path})
        await intake.order(starts=[of(start, "daemon")])
        end = await intake.ended(1)
        assert (end.cause, end.exit_status) == ("start_failed", 126)
        assert "Permission denied" in end.message
        await intake.order(starts=[of(start_of(2, "true"), "daemon")])
        assert (await intake.ended(2, NODE)).exit_status == 0
    assert (private / "file").read_text() == "secret"


async def test_the_agents_own_user_by_default(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "id", "-u")
        end = await intake.ended(1)
    assert Path(end.stdout).read_text() == f"{os.geteuid()}\n"


def test_a_fallback_that_does_not_exist_is_refused_at_once():
    with pytest.raises(Refused):
        RunAs(mode="submitter", otherwise="nobody-of-that-name").check()
