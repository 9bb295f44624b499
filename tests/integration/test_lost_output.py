"""Commands that act, with an output that can't be written: they say what they did, and that the output is lost."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from integration.stage import ready, running, write_config

from rankd.bus.connection import Bus
from rankd.services.intake import service as intake
from rankd.store.engine.url import open_database
from rankd.store.schema.migration import upgrade

RANKD = str(Path(sys.executable).with_name("rankd"))
LOST = {
    ">/dev/full": "rankd: the output could not be written (No space left on device)",
    ">&-": "rankd: the output could not be written (it is closed)",
}


@pytest.fixture
async def lost(broker, tmp_path):
    """An intake; runs commands without a standard output, and returns exit status and errors."""
    database = tmp_path / "rankd.db"
    async with open_database(database) as opened:
        await upgrade(opened)
    options = intake.IntakeOptions(nats=broker.url, db=str(database), config=write_config(tmp_path / "config"))
    async with Bus(broker.url, "test") as bus, running(intake.run, options):
        await ready(bus, "intake")

        async def rankd(output, *words):
            env = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
            child = await asyncio.create_subprocess_exec(
                "sh", "-c", f'exec "$@" {output}', "sh", RANKD, *words, cwd=tmp_path,
                stderr=asyncio.subprocess.PIPE, env=env | {"RANKD_NATS": broker.url, "RANKD_USER": "alice"},
            )  # fmt: skip
            _, errors = await child.communicate()
            return child.returncode, errors.decode()

        yield rankd


@pytest.mark.parametrize("output", LOST)
async def test_a_command_whose_output_is_lost_says_what_it_did(lost, output):
    for words, done in [
        (["submit", "-H", "--", "true"], "; job 1 was accepted"),
        (["submit", "-H", "--json", "--wait", "--", "true"], "; job 2 was accepted"),
        (["submit", "-H", "--count", "3", "--", "true"], "; 3 jobs were accepted: 3-5"),
        (["submit", "--enqueue", "--key", "k", "--", "true"], "; a job with the key k was enqueued"),
        (["release", "--json", "1", "2"], "; jobs that were changed: 2"),
        (["cancel", "--json", "1"], "; jobs that were changed: 1"),
        (["hold", "--dry-run", "2"], ""),
        (["class", "create", "urgent", "--value", "1", "--admin"], "; priority class urgent created"),
        (["reload", "--admin"], "; configuration 1 is in force"),
        (["queue"], ""),
        (["why", "2"], ""),
        (["health", "intake"], ""),
    ]:
        assert await lost(output, *words) == (4, f"{LOST[output]}{done}\n"), words
