"""Jobs that no node would run, since it runs none as root or knows no such user, are refused at once."""

from __future__ import annotations

import builder
import msgspec
import pytest
from integration.intake_stage import JOB, options_of
from integration.stage import connected, ready, running

from rankd.bus.connection import Bus
from rankd.core.admission.runnable_user import LocalRights
from rankd.services.intake.service import run


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


KNOWN, UNKNOWN = "daemon", "nobody-of-that-name"


async def asked(broker, options, users):
    """The code of the refusal of each user's job; None where it is accepted."""
    codes = {}
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options):
        await ready(bus, "intake")
        for user in users:
            reply = await client.connection.request(
                f"rankd.v1.user.{user}.job.submit", msgspec.json.encode(JOB), timeout=60
            )
            codes[user] = msgspec.json.decode(reply.data).get("code")
    return codes


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("any", {"root": None, KNOWN: None, UNKNOWN: None}),
        ("users", {"root": "root_refused", KNOWN: None, UNKNOWN: None}),
        ("known", {"root": "root_refused", KNOWN: None, UNKNOWN: "no_such_user"}),
    ],
)
async def test_whose_jobs_are_refused_is_configured(broker, tmp_path, rule, expected):
    options = options_of(broker, tmp_path)
    settings = options.config / "rankd.toml"
    settings.write_text(settings.read_text().replace("[admission]", f'[admission]\nsubmitters = "{rule}"'))
    assert await asked(broker, options, expected) == expected


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        (LocalRights("root", is_root=True), {"root": "root_refused", KNOWN: None, UNKNOWN: None}),
        (LocalRights(KNOWN, is_root=False), {"root": "owner_only", KNOWN: None, UNKNOWN: "owner_only"}),
    ],
)
async def test_where_jobs_run_as_their_users_those_that_could_not_are_refused(broker, tmp_path, local, expected):
    """Without the head's gateway: nobody proves to be root."""
    options = msgspec.structs.replace(options_of(broker, tmp_path), local=local)
    assert await asked(broker, options, expected) == expected


async def test_of_a_list_only_those_jobs_are_refused(broker, tmp_path):
    options = msgspec.structs.replace(options_of(broker, tmp_path), local=LocalRights("root", is_root=True))
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options):
        await ready(bus, "intake")
        jobs = [{**JOB, "user": user} for user in (KNOWN, "root", KNOWN)]
        reply = await client.connection.request(
            "rankd.v1.admin.root.job.submit", msgspec.json.encode({"jobs": jobs}), timeout=60
        )
        answer = msgspec.json.decode(reply.data)
    assert [one["index"] for one in answer["accepted"]] == [0, 2]
    assert [(one["index"], one["code"]) for one in answer["rejected"]] == [(1, "root_refused")]
