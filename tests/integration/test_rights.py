"""The same rights and the same words for every command, on a real intake: what is for administrators, says so."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from integration.stage import connected, ready, running, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.core.errors import Refused
from rankd.services.intake import service as intake
from rankd.store.engine.url import open_database
from rankd.store.record.dead_letter import Undelivered, keep
from rankd.store.schema.migration import upgrade

RANKD = str(Path(sys.executable).with_name("rankd"))


@pytest.fixture
async def site(broker, tmp_path):
    """An intake with jobs 1 of alice and 2 of bob; runs commands as users."""
    database = tmp_path / "rankd.db"
    async with open_database(database) as opened:
        await upgrade(opened)
    options = intake.IntakeOptions(nats=broker.url, db=str(database), config=write_config(tmp_path / "config"))
    async with Bus(broker.url, "test") as bus, running(intake.run, options), connected(broker.url) as client:
        await ready(bus, "intake")
        for user in ("alice", "bob"):
            await client.submit(user)

        async def rankd(*words, status=0, **environment):
            env = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
            child = await asyncio.create_subprocess_exec(
                RANKD, *words, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=env | {"RANKD_NATS": broker.url} | environment,
            )  # fmt: skip
            out, err = await child.communicate()
            assert status in (None, child.returncode), (out, err)
            return err.decode() if status else out.decode()

        rankd.database = database
        rankd.url = broker.url
        yield rankd


FOR_ADMINISTRATORS = [
    ["reload"],
    ["class", "create", "x", "--value", "1"],
    ["class", "delete", "x"],
    ["diag", "--reset"],
    ["streams", "check"],
    ["streams", "rebuild"],
    ["cancel", "-u", "bob"],
    ["hold", "-u", "bob"],
    ["release", "-u", "alice,bob"],
    ["update", "-u", "bob", "--urgency", "3"],
    ["update", "-w", "user=bob", "--urgency", "3"],
    ["update", "1", "--fix-priority", "3"],
    ["deadletter", "list", "-u", "bob"],
]


async def test_what_is_for_administrators_says_so_in_the_same_words(site):
    for words in FOR_ADMINISTRATORS:
        said = await site(*words, "--as", "alice", status=1)
        assert "is for administrators only; 'alice' asked as an ordinary user" in said, words
    rows = json.loads(await site("list", "--json", "--as", "alice"))
    assert [(row["id"], row["state"], row["urgency"], row["held"]) for row in rows] == [
        (1, "pending", 16, False),
        (2, "pending", 16, False),
    ]


async def test_what_is_for_operators_says_so(site):
    for verb in ("drain", "resume"):
        said = await site("node", verb, "n1", "--as", "alice", status=1)
        assert f"node.{verb} is for operators and administrators; 'alice' asked as an ordinary user" in said


async def test_the_same_is_done_with_admin_whoever_is_named(site):
    assert await site("cancel", "-u", "bob", "--as", "alice", "--admin", "-v") == "2\n"
    assert "configuration" in await site("reload", "--as", "alice", "--admin")


async def test_an_administrator_checks_the_streams_and_makes_them_anew(site):
    async def well():
        while True:  # the intake makes its consumer just after it is ready, and once again after a rebuild
            child = json.loads(await site("streams", "check", "--json", "--admin", status=None))
            if not child["problems"]:
                return

    async with asyncio.timeout(PATIENCE_S):
        await well()
    assert "the streams are as the configuration and the database say" in await site("streams", "check", "--admin")
    assert json.loads(await site("streams", "rebuild", "--json", "--admin"))["lost"] == 0
    async with asyncio.timeout(PATIENCE_S):
        await well()
    assert "the streams are new;" in await site("streams", "rebuild", "--admin")
    assert len(json.loads(await site("list", "--json", "--as", "alice"))) == 2, "no job is touched"


async def test_all_dead_letters_are_listed_however_many_pages_they_fill(site):
    """A page has at most 1,000 rows, and as many as one message has room for."""

    def letter(number: int) -> Undelivered:
        payload = b"x" * (2**14 if number < 200 else 1)
        return Undelivered(source=f"s{number}", user="alice", at=1.0, message_id=None, payload=payload,
                           code="bad_request", message="m")  # fmt: skip

    async with open_database(site.database) as opened:
        await opened.write(lambda connection: keep(connection, [letter(number) for number in range(2_100)]))
    rows = json.loads(await site("deadletter", "list", "--json", "--as", "alice"))
    assert [row["id"] for row in rows] == list(range(1, 2_101))
    assert len((await site("deadletter", "list", "-h", "--as", "alice")).splitlines()) == 2_100
    assert await site("deadletter", "list", "-h", "--as", "bob") == ""


async def test_an_own_filter_selects_own_jobs_alone(site):
    assert await site("cancel", "-q", "root.default", "--as", "alice", "-v") == "1\n"


async def test_a_broker_and_the_database_of_another_site_are_an_error(site, tmp_path):
    other = tmp_path / "other.db"
    async with open_database(other) as opened:
        await upgrade(opened)
    both = ["--nats", site.url, "--db"]
    for words in (["queue"], ["cancel", "1", "--as", "alice"], ["submit", "--", "true"]):
        head, tail = (words[:1], words[1:])
        said = await site(*head, *both, str(other), *tail, status=2)
        assert f"the database {other} is not the one of the rankd at {site.url}" in said
        said = await site(*head, *both, str(tmp_path / "gone.db"), *tail, status=2)
        assert "can't be accessed" in said
    assert "alice" in await site("queue", *both, str(site.database))
    assert "2 batch jobs" in await site("submit", *both, str(site.database), "--count", "2", "--", "true")


async def test_health_says_which_broker_was_asked_and_why(site):
    assert (await site("health", "intake")).splitlines()[1] == f"asks the broker {site.url}: named by $RANKD_NATS"
    told = json.loads(await site("health", "intake", "--json"))
    assert (told["broker"], told["chosen"]) == (site.url, "named by $RANKD_NATS")


async def test_health_of_all_services_is_a_line_each_and_the_worst_status(site):
    asked = await asyncio.create_subprocess_exec(
        RANKD, "health", "--nats", site.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said = (await asked.communicate())[0].decode().splitlines()
    assert asked.returncode == 3
    assert said[0].startswith("intake: ready (pid ")
    missing = f"does not answer within 2 s; is it running at {site.url}?"
    assert said[1:3] == [f"prioritizer: {missing}", f"scheduler: {missing}"]


async def test_a_named_broker_is_asked_whatever_lies_about(site, tmp_path):
    stray = tmp_path / ".rankd"
    stray.mkdir(mode=0o700)
    async with open_database(stray / "rankd.db") as opened:
        await upgrade(opened)
    for words in (["queue", "-h"], ["show", "1"], ["why", "1"], ["acct", "-j", "1"], ["list"]):
        assert "alice" in await site(*words), words
    assert await site("queue", "-h", RANKD_NATS="") == "", "without the variable, the directory counts"


async def test_another_spelling_of_a_name_is_nobody(site):
    """A broker's permissions are about tokens: '%61lice' must not be alice, nor a user of its own."""
    async with Bus(site.url, "spelling") as bus:
        for token in ("%61lice", "al%69ce", "%e9"):
            with pytest.raises(Refused) as refused:
                await bus.request(f"rankd.v1.user.{token}.job.submit", b'{"command": ["true"]}', dict)
            assert refused.value.code == "bad_request", token
