"""A site goes from an older version to this one without a stop: services of both run side by side on one database."""

import asyncio
import io
import subprocess
import sys
import tarfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from integration.lease_stage import rows, until
from integration.stage import connected, process, ready, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.services.keeper.orphan import end_kept
from rankd.store.schema.migration import newest_revision

ROOT = Path(__file__).parents[2]
OLD = "a938d3e4c7989dbc5b64a9fd0392cd4a722672e7"
"""A commit of the older version. Its schema is one migration behind, and it knows no steps."""
SERVICES = ("intake", "prioritizer", "scheduler")
HELD = 4
"""The jobs of the older version that still run while everything is replaced."""


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The older version's own files."""
    try:
        command = ["git", "archive", OLD, "daemon", "plugins", "migrations", "config"]
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the commit {OLD} is not here: this is no clone with the whole history")
    place = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    subprocess.run([sys.executable, "-m", "compileall", "-q", place], check=True)
    return place


async def does(version, *words, **options):
    async with process(*words, version=version, **options) as command:
        _, said = await command.communicate()
        assert command.returncode == 0, said


async def test_jobs_go_on_while_each_part_is_replaced_by_one_of_this_version(broker, url, old, tmp_path):
    here = {"nats": broker.url, "config": write_config(tmp_path / "config"), "db": url}
    agent = {"nats": broker.url, "name": "n1", "state": tmp_path / "state", "run-as": "agent"}
    go, ran = tmp_path / "go", tmp_path / "ran"
    ran.mkdir()
    once = {"resources": {"vcore": 0.01}}
    held = once | {"command": ["sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; echo . >> {ran}/$RANKD_JOB_ID"]}
    short = once | {"command": ["sh", "-c", f"echo . >> {ran}/$RANKD_JOB_ID"]}

    def ended():
        return rows(url, "SELECT count(*) FROM jobs WHERE state = 'completed'")[0][0]

    await does(old, "db", "upgrade", db=url)
    assert rows(url, "SELECT version_num FROM schema_version") != [(newest_revision(),)]
    async with (
        asyncio.timeout(3 * PATIENCE_S),
        Bus(broker.url, "probe") as bus,
        connected(broker.url) as client,
        AsyncExitStack() as of_old,
        AsyncExitStack() as of_new,
    ):
        parts = {name: await of_old.enter_async_context(process(name, version=old, **here)) for name in SERVICES}
        parts["agent"] = await of_old.enter_async_context(process("agent", version=old, **agent))
        for name in SERVICES:
            await ready(bus, name)
        for _ in range(HELD):
            await client.submit(**held)
        await until(lambda: rows(url, "SELECT count(*) FROM jobs WHERE state = 'running'") == [(HELD,)])

        await does(ROOT, "db", "upgrade", db=url)
        assert rows(url, "SELECT version_num FROM schema_version") == [(newest_revision(),)]
        for name in SERVICES:
            await of_new.enter_async_context(process(name, version=ROOT, **here))
        await until(
            lambda: rows(url, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM roles%'")[0][0] >= 3
        )
        total = HELD
        for name in ("prioritizer", "scheduler", "intake", "agent"):
            ids = [await client.submit(**short) for _ in range(3)]  # with two intakes, either one may answer
            parts[name].terminate()
            assert await parts[name].wait() == 0
            if name == "agent":
                await of_new.enter_async_context(process("agent", version=ROOT, **agent))
            ids += [await client.submit(**short) for _ in range(3)]
            total += len(ids)
            await until(lambda: ended() == total - HELD)  # noqa: B023 - called before the next round
        go.touch()
        await until(lambda: ended() == total)
        await end_kept(tmp_path / "state", grace_s=1)
        holders = rows(url, "SELECT DISTINCT epoch FROM roles")
    assert holders == [(2,)]
    assert rows(url, "SELECT count(*) FROM jobs") == [(total,)]
    assert rows(url, "SELECT max(requeues) FROM jobs") == [(0,)]
    assert sorted(file.read_text() for file in ran.iterdir()) == [".\n"] * total
