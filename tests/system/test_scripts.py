"""Batch scripts over a real ``rankd up``: submitted, run, shown, refused."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from system.conftest import RANKD, Machine

SCRIPT = """#!/bin/sh
#SBATCH -J directive -t 5 --mail-type=END
#RANKD --comment kept
echo "first $1 $SLURM_JOB_NAME $SLURM_SUBMIT_DIR"
echo err >&2
"""


class Done(NamedTuple):
    """What a command printed."""

    out: str
    err: str


class Site(NamedTuple):
    """A rankd up with this machine as its node, and a directory to submit in."""

    machine: Machine
    here: Path

    def submit(self, *words: str, stdin: str = "", status: int = 0, **variables: str) -> Done:
        place = {"RANKD_DIR": str(self.machine.directory), **variables}
        done = subprocess.run(
            [*RANKD, "submit", *words],
            cwd=self.here, env=os.environ | place, input=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done
        return Done(done.stdout, done.stderr)

    @property
    def user(self) -> str:
        return getpass.getuser()

    def show(self, job: int) -> dict:
        return json.loads(self.machine.rankd("show", str(job), "--json"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    home = tmp_path_factory.mktemp("scripts")
    machine = Machine(home / "state")
    here = home / "work here"
    here.mkdir()
    machine.start()
    try:
        yield Site(machine, here)
    finally:
        machine.end()


def number(printed: str) -> int:
    return int(printed.removeprefix("Submitted batch job "))


def test_a_script_runs_as_it_was_when_it_was_submitted_and_writes_where_it_was(site):
    file = site.here / "train.sh"
    file.write_text(SCRIPT)
    held = number(site.submit("-H", "-J", "line", "train.sh", "a b", RANKD_SUBMIT_NAME="variable").out)
    file.write_text("#!/bin/sh\necho second\n")
    site.machine.rankd("release", str(held))
    done = site.submit("--wait", "train.sh")
    second = number(done.out)
    assert f"output goes to {site.here}/job-{second}.out" in done.err
    assert (site.here / f"job-{second}.out").read_text() == "second\n"
    site.submit("--wait", "-d", f"afterok:{held}", "--", "true")
    assert (site.here / f"slurm-{held}.out").read_text() == f"first a b line {site.here}\nerr\n"
    shown = site.show(held)
    assert (shown["name"], shown["comment"], shown["time_limit_s"], shown["slurm_env"]) == ("line", "kept", 300, True)
    assert shown["script_bytes"] == len(SCRIPT)


def test_a_script_from_standard_input_gets_the_environment_and_no_credentials(site):
    text = (
        "#!/usr/bin/env python3\nimport os\nprint(*(n for n in os.environ if n[:6] == 'RANKD_'), os.environ['HUE'])\n"
    )
    done = site.submit(
        "-W", "-o", "out", "-", stdin=text, HUE="red", RANKD_CREDS=str(site.machine.directory / "auth" / "admin.creds")
    )
    words = (site.here / "out").read_text().split()
    assert words[-1] == "red"
    assert "RANKD_JOB_ID" in words
    assert not {"RANKD_CREDS", "RANKD_NATS", "RANKD_TOKEN"} & set(words)
    assert site.show(number(done.out))["name"] == "stdin"


def test_a_wrapped_line_runs_as_a_script_of_sbatch(site):
    done = site.submit("-W", "--wrap", "echo $HUE $SLURM_JOB_ID; echo late >&2", HUE="red")
    job = number(done.out)
    assert f"output goes to {site.here}/slurm-{job}.out" in done.err
    assert (site.here / f"slurm-{job}.out").read_text() == f"red {job}\nlate\n"
    assert site.show(job)["name"] == "wrap"


def test_a_test_asks_the_site_and_submits_nothing(site):
    (site.here / "test.sh").write_text("#!/bin/sh\n#SBATCH --test-only\n#SBATCH --mail-type=END\n")
    done = site.submit("-H", "test.sh")
    assert done.out.splitlines() == [
        f"The job would be accepted: user {site.user}, account default, queue root.default, QoS normal",
        "It would wait: held (it asks to be held)",
    ]
    assert "the job notifies nobody" in done.err
    refused = site.submit("test.sh", status=1, SBATCH_PARTITION="gpu")
    assert refused.err.splitlines()[-1].startswith("rankd: SBATCH_PARTITION: ")
    many = site.submit("--test-only", "--count", "3", "-c", "1000", "--", "true")
    assert many.out.startswith("The job would be accepted: ")
    assert "no node in partition 'default' offers more than" in many.err
    (site.here / "jobs.json").write_text('[{"command": ["true"]}, {"command": ["true"], "queue": "root.x"}]')
    several = site.submit("--test-only", "--file", "jobs.json", status=1)
    assert several.out == "1 job would be accepted\n"
    assert several.err.startswith("rankd: entry 2 refused: ")
    assert json.loads(site.machine.rankd("queue", "--json", "-n", "test.sh")) == []


def test_a_job_may_extend_its_output_file(site):
    text = "#!/bin/sh\n#SBATCH -W -o kept --open-mode=append\necho again\n"
    for _ in range(2):
        site.submit("-", stdin=text)
    assert (site.here / "kept").read_text() == "again\nagain\n"
    site.submit("--open-mode", "truncate", "-", stdin=text)
    assert (site.here / "kept").read_text() == "again\n"


def test_its_status_is_the_jobs_and_only_its_owner_and_administrators_see_it(site):
    text = "#!/bin/sh\n# a secret of the owner\nexit 7\n"
    done = site.submit("--wait", "-", stdin=text, status=7)
    job = str(number(done.out))
    assert site.machine.rankd("show", "--script", job) == text
    assert json.loads(site.machine.rankd("show", "--script", "--json", job)) == {"id": int(job), "script": text}
    bob = ["--nats", site.machine.up["nats"], "--creds", str(site.machine.credentials("user", "bob"))]
    refused = site.machine.rankd_fails("show", "--script", job, *bob)
    assert "only its owner or an administrator may do that" in refused
    assert "secret" not in refused
    assert "a secret" not in site.machine.rankd("show", job, *bob)
    assert "only its owner" in site.machine.rankd_fails("show", "--script", job, "--as", "bob")
    plain = number(site.submit("--", "true").out)
    assert "has no script" in site.machine.rankd_fails("show", "--script", str(plain))


def test_a_job_may_submit_the_next_one_as_its_user(tmp_path):
    """Chains of jobs: the job's own $RANKD_USER names no other user."""
    machine = Machine(tmp_path / "state")
    machine.start(rights=())
    try:
        script = tmp_path / "chain.sh"
        next_one = f'{RANKD[0]} submit --parsable --hold -d "afterok:$SLURM_JOB_ID" -- true'
        script.write_text(f"#!/bin/sh\n#SBATCH -o /dev/null\n{next_one} >next 2>&1\n")
        Site(machine, tmp_path).submit("--wait", str(script))
        said = (tmp_path / "next").read_text()
        shown = json.loads(machine.rankd("show", said.strip(), "--json"))
        assert (shown["user"], shown["depends_on"]) == (getpass.getuser(), [{"type": "afterok", "job": 1}])
    finally:
        machine.end()


def test_what_is_not_a_script_is_refused_and_told_what_to_write(site):
    assert "rankd submit -- sleep 5" in site.submit("sleep", "5", status=2).err
    said = site.submit("-", stdin="#!/bin/sh\n\n#SBATCH -F n7\ntrue\n", status=2).err
    assert said.startswith("rankd: line 3: #SBATCH --nodefile: ")
    done = site.submit("--ignore-unknown", "--parsable", "-", stdin="#!/bin/sh\n#SBATCH -F n7\ntrue\n")
    assert int(done.out)
    assert done.err.startswith("rankd: line 2: --nodefile is left out")


def test_a_job_that_no_node_could_run_is_accepted_with_a_warning(site):
    site.submit("--wait", "--", "true")  # the node is there
    done = site.submit("-H", "-w", "nowhere", "--parsable", "--", "true")
    assert int(done.out)
    assert done.err == "rankd: there is no node 'nowhere' in partition 'default'; the job waits until that changes\n"
    done = site.submit("-H", "-c", "9999", "--", "true")
    assert number(done.out)
    assert done.err.startswith(
        "rankd: the job asks for vcore 9999 on a node, and no node in partition 'default' offers"
    )
    assert site.submit("-H", "--", "true").err == ""
