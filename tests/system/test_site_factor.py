"""The example of a site's own factor as its author would have it: built, installed, tested, run, and broken."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from system.client import connected
from watch import PATIENCE_S

from rankd.store.schema.migration import shipped

EXAMPLE = Path(__file__).parents[2] / "examples" / "rankd-site-factor"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-deps", "--no-index"]
HEAD = "account,user,value\n"
WEIGHT = 2000.0


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The wheel of a copy of the example, installed into a directory of its own."""
    place = tmp_path_factory.mktemp("stranger")
    source = shutil.copytree(EXAMPLE, place / "source")
    run(*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", place, source)
    [wheel] = place.glob("rankd_site_factor-*.whl")
    run(*PIP, "install", *OFFLINE, "--target", place / "site", wheel)
    return place / "site"


@pytest.fixture
def environment(site, tmp_path, monkeypatch):
    """rankd's processes find the package, and it finds its file; returns the file."""
    file = tmp_path / "site.csv"
    file.write_text(HEAD + "default,alice,0.5\n")
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    monkeypatch.setenv("RANKD_SITE_CSV", str(file))
    return file


@pytest.fixture
def config(tmp_path):
    """The configuration that ships, with a weight for the factor, and a pass every half a second."""
    directory = shutil.copytree(shipped("config"), tmp_path / "etc")
    file = directory / "rankd.toml"
    text = file.read_text().replace("[priority.weights]\n", f"[priority.weights]\nsite_csv = {WEIGHT}\n")
    file.write_text(text.replace("period_s = 5 ", "period_s = 0.5 "))
    return directory


def test_its_own_tests_pass_against_the_installed_package(site):
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests", "--rootdir", EXAMPLE,
        "-c", os.devnull, env=os.environ | {"PYTHONPATH": str(site)}, cwd=site)  # fmt: skip


@asynccontextmanager
async def rankings(client):
    """Gives a function that waits, from one generation to the next, until something is true."""
    events = await client.connection.subscribe("rankd.v1.event.ranking")

    async def until(condition):
        async with asyncio.timeout(PATIENCE_S):
            while not (found := condition()):
                await events.next_msg(timeout=PATIENCE_S)
            return found

    yield until


async def test_it_is_used_followed_and_survived(machine, environment, config):
    machine.start("--no-local-agent", "--simulate", "1", "--config", str(config))
    held = {"command": ["sleep", "1"], "resources": {"vcore": "1000"}}

    def value(user):
        query = 'SELECT site_csv, site_csv_points FROM job_priority WHERE "user" = ? AND rank IS NOT NULL'
        return [(row["site_csv"], row["site_csv_points"]) for row in machine.rows(query, user)]

    async with connected(machine.up["nats"], machine.services) as client, rankings(client) as until:
        [alices] = await client.submit("alice", held)
        await client.submit("bob", held)
        await until(lambda: value("alice") == [(0.5, 1000.0)] and value("bob") == [(0.0, 0.0)])
        assert "SITE_CSV" in machine.rankd("prio").splitlines()[0]
        assert [row.split()[4:6] for row in machine.rankd("prio", "-h", "-u", "alice").splitlines()] != []
        assert "1000.0000 site_csv = 0.5000000 x 2000" in machine.rankd("why", str(alices))

        environment.write_text(HEAD + ",bob,1.0\n")
        await until(lambda: value("alice") == [(0.0, 0.0)] and value("bob") == [(1.0, WEIGHT)])

        environment.write_text("nonsense\n")
        await until(lambda: "site_csv" in prioritizer(machine)["failing"])
        assert "the columns must be account, user and value" in machine.rankd("diag")
        assert value("bob") == [(1.0, WEIGHT)]

        environment.unlink()
        os.mkfifo(environment)  # as a disk that does not answer: opening it takes for ever
        await until(lambda: prioritizer(machine)["plugins"]["site_csv"]["late"])
        [done] = await client.submit("carol", {"command": ["true"]})
        await client.until_ended(1)
        assert client.ended == {done: "completed"}
        [waiting] = await client.submit("carol", held)
        await until(lambda: value("carol") == [(0.0, 0.0)])
        assert value("bob") == [(1.0, WEIGHT)]
        assert value("alice") == [(0.0, 0.0)]
        event = "(SELECT min(id) FROM job_event WHERE job_id = ?)"
        full = f"SELECT 1 FROM generation WHERE kind = 'full' AND revision >= {event}"
        await until(lambda: machine.rows(full, waiting))
        assert f"Job {waiting} of carol" in machine.rankd("why", str(waiting), "--gap")


async def test_a_package_that_is_installed_while_everything_runs_is_found_by_a_reload(
    machine, site, tmp_path, monkeypatch
):
    late = tmp_path / "late"
    late.mkdir()
    (tmp_path / "site.csv").write_text(HEAD + "default,alice,0.5\n")
    monkeypatch.setenv("PYTHONPATH", str(late), prepend=os.pathsep)
    monkeypatch.setenv("RANKD_SITE_CSV", str(tmp_path / "site.csv"))
    etc = shutil.copytree(shipped("config"), tmp_path / "etc")
    machine.start("--no-local-agent", "--simulate", "1", "--config", str(etc))
    weights = (etc / "rankd.toml").read_text().replace("[priority.weights]\n", "[priority.weights]\nsite_csv = 2000\n")
    (etc / "rankd.toml").write_text(weights)
    assert "site_csv" in machine.rankd_fails("reload", "--admin", status=2)
    pids = machine.up["pids"]
    shutil.copytree(site, late, dirs_exist_ok=True)
    machine.rankd("reload", "--admin")
    async with connected(machine.up["nats"], machine.services) as client, rankings(client) as until:
        await client.submit("alice", {"command": ["true"], "resources": {"vcore": 8}, "urgency": 0})
        await client.submit("alice", {"command": ["sleep", "600"], "resources": {"vcore": 8}, "nodes": 1})
        [last] = await client.submit("alice", {"command": ["sleep", "600"], "resources": {"vcore": 8}})
        query = "SELECT site_csv_points FROM job_priority WHERE id = ?"
        ranked = "SELECT 1 FROM generation WHERE weights LIKE '%site_csv%'"
        await until(lambda: machine.rows(ranked) and machine.rows(query, last) == [{"site_csv_points": 1000.0}])
    assert machine.up["pids"] == pids
    assert machine.diag()["scheduler"]["configuration"]["failed"] == 0


def prioritizer(machine):
    return machine.diag()["prioritizer"]
