"""A directory of somebody else's, full of modules with familiar names: none of rankd's processes imports from it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from system.client import connected
from system.conftest import RANKD
from watch import PATIENCE_S

from rankd.store.schema.migration import shipped

FAMILIAR = ("numbers", "sitecustomize", "usercustomize", "random", "json", "numpy", "msgspec", "nats", "uvloop", "yaml")
FAMILIAR += ("sqlalchemy", "alembic", "rankd_plugins", "doctest", "csv", "decimal", "secrets", "statistics")
HOSTILE = (
    'import os, sys; open({caught!r}, "a").write(f"{{__name__}}: {{sys.orig_argv}}\\n"); raise ImportError("hostile")'
)

FACTOR = """
import numpy as np

class Site:
    name, per, lowest, highest = "site", "job", 0.0, 1.0

    def __init__(self, settings):
        pass

    def values(self, context):
        return np.full(len(context.jobs.ids), 0.5)

    def sql(self):
        return None

    def parameters(self):
        return {}
"""


@pytest.fixture
def caught(machine) -> Path:
    """The current directory of everything that the test starts is hostile; the file says who imported from it."""
    file = machine.directory.parent / "caught"
    for name in FAMILIAR:
        (machine.directory.parent / f"{name}.py").write_text(HOSTILE.format(caught=str(file)))
    return file


@pytest.fixture
def operators_own(tmp_path_factory, monkeypatch) -> Path:
    """A package with a factor on the operator's PYTHONPATH, which still counts."""
    site = tmp_path_factory.mktemp("site")
    metadata = site / "rankd_site-1.dist-info"
    metadata.mkdir()
    (site / "rankd_site.py").write_text(FACTOR)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rankd_site\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[rankd.factors]\nsite = rankd_site:Site\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


@pytest.fixture
def config(tmp_path_factory) -> Path:
    """The configuration that ships, with the factor, and an adapter that reads a file."""
    directory = shutil.copytree(shipped("config"), tmp_path_factory.mktemp("config") / "etc")
    (directory / "shares.csv").write_text("account,user,shares\ndefault,alice,2\n")
    file = directory / "rankd.toml"
    text = file.read_text().replace("[priority.weights]\n", "[priority.weights]\nsite = 1000\n")
    adapter = (
        '\n[[adapters]]\nname = "shares"\ninput = "associations"\nadapter = "file"\noptions = {path = "shares.csv"}\n'
    )
    file.write_text(text.replace("period_s = 5 ", "period_s = 0.5 ") + adapter)
    return directory


@pytest.mark.usefixtures("operators_own")
async def test_nothing_is_imported_from_the_current_directory(machine, caught, config):
    machine.start("--name", "here", "--config", str(config))
    async with connected(machine.up["nats"], machine.services) as client:
        [job] = await client.submit("alice", {"command": ["true"]})
        assert await client.until_ended(1) == {job: "completed"}
        [waits] = await client.submit("alice", {"command": ["true"], "resources": {"vcore": 1000}})
        rankings = await client.connection.subscribe("rankd.v1.event.ranking")
        while not machine.rows("SELECT 1 FROM job_priority WHERE id = ? AND site_points = 500.0", waits):
            await rankings.next_msg(timeout=PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):  # its first reading may come after the first rankings
        while (adapters := machine.rows("SELECT state FROM adapter")) == [{"state": "waiting"}]:
            await asyncio.sleep(0.1)
    assert adapters == [{"state": "ok"}]
    assert "Submitted batch job" in machine.rankd("submit", "--", "true")
    machine.rankd("queue")
    assert machine.stop() == 0
    assert not caught.exists(), caught.read_text()


def test_the_module_as_program_drops_the_current_directory_too(machine, caught):
    """What runpy itself imports comes too early for us; everything that rankd imports does not."""
    done = subprocess.run(
        [sys.executable, "-m", "rankd", "config", "check", str(shipped("config"))],
        cwd=machine.directory.parent, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not caught.exists()


def test_the_demo_starts_in_a_hostile_directory(machine, caught):
    with subprocess.Popen([*RANKD, "demo"], cwd=machine.directory.parent, stdout=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("up: broker") for line in process.stdout)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert not caught.exists(), caught.read_text()
