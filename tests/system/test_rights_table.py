"""The table of rights in docs/security.md, cell by cell: a real rankd up, real credentials, plain NATS clients."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from system.conftest import RANKD, Machine
from watch import PATIENCE_S

from rankd.bus.client import PatientClient

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
ROW = re.compile(r"^\| `(?P<verb>[a-z_.]+)`(?P<more>[^|]*) \| (?P<cells>.*) \|$", re.MULTILINE)

SETTINGS = """
[priority]
period_s = 0.3
[admission]
unknown_association = "default"
admins = ["adam"]
operator_groups = ["night"]
[[qos]]
name = "normal"
"""
ACCOUNTS = "accounts: [{name: default}]\ngroups: [{name: night, users: [olga]}]\n"
QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, submitacl: "*", queues: [{name: default, adminacl: "quinn"}, {name: other}]}
"""
JOB = {"command": ["true"], "script": "#!/bin/sh\n", "env": {"SECRET": "s3cret"}}

REFUSALS = {"not_owner", "admins_only", "user_mismatch", "unknown_dead_letter", "urgency_not_allowed", "admin_hold"}


class Role(NamedTuple):
    """A column of the table: who asks, on which subjects, and whose things the requests are about."""

    column: int
    user: str
    subject: str
    owner: str


ROLES = {
    "owner": Role(0, "alice", "user.alice", "alice"),
    "other user": Role(1, "alice", "user.alice", "bob"),
    "operator": Role(2, "olga", "user.olga", "bob"),
    "administrator of the queue": Role(3, "quinn", "user.quinn", "bob"),
    "administrator by credentials": Role(4, "carol", "admin.carol", "bob"),
    "administrator by configuration": Role(4, "adam", "user.adam.as-admin", "bob"),
}


def documented() -> dict[str, list[str]]:
    """The cells of each row."""
    section = SECURITY.read_text(encoding="utf-8").split("## Rights")[1].split("\n## ")[0]
    return {
        f"{row['verb']}{row['more'].rstrip()}": [cell.strip() for cell in row["cells"].split("|")]
        for row in ROW.finditer(section)
    }


TABLE = documented()


class Site(NamedTuple):
    """A rankd up, the credentials of its users, and of each user (by kind) a job, and dead letters."""

    machine: Machine
    creds: dict[str, Path]
    jobs: dict[tuple[str, str], int]
    letters: dict[str, list[int]]

    def ask(self, user: str, subject: str, body: object = None) -> dict:
        """The answer of one request, with the error's code if it is one."""
        return asyncio.run(self._ask(user, [(subject, body)]))[0]

    async def _ask(self, user: str, requests: list[tuple[str, object]]) -> list[dict]:
        connection = PatientClient()
        await connection.connect(self.machine.up["nats"], user_credentials=str(self.creds[user]))
        try:
            return [
                json.loads(
                    (
                        await connection.request(
                            f"rankd.v1.{subject}", json.dumps(body or {}).encode(), timeout=PATIENCE_S
                        )
                    ).data
                )
                for subject, body in requests
            ]
        finally:
            await connection.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    home = tmp_path_factory.mktemp("rights")
    config = home / "etc"
    config.mkdir()
    (config / "rankd.toml").write_text(SETTINGS)
    (config / "accounts.yaml").write_text(ACCOUNTS)
    (config / "queues.yaml").write_text(QUEUES)
    machine = Machine(home / "state")
    machine.start("--config", str(config), "--no-local-agent")
    try:
        creds = {user: machine.credentials("user", user) for user in ("alice", "bob", "olga", "adam", "quinn")}
        creds["carol"] = home / "carol.creds"
        machine.rankd("auth", "creds", "--user", "carol", "--admin", "--out", str(creds["carol"]))
        creds["services"] = machine.services
        yield _filled(Site(machine, creds, {}, {}))
    finally:
        machine.end()


def _filled(site: Site) -> Site:
    """With jobs: one that waits, one that its owner holds, and one that an administrator holds; and dead letters."""
    for user in ("alice", "bob"):
        for kind in ("waits", "held", "kept"):
            job = site.ask(user, f"user.{user}.job.submit", {**JOB, "held": kind == "held"})["id"]
            site.jobs[user, kind] = job
        kept = {"id": site.jobs[user, "kept"]}
        assert site.ask("carol", "admin.carol.job.hold", kept)["done"] == [kept["id"]]
        bad = {"command": ["true"], "queue": "nowhere"}
        asyncio.run(site._ask("services", [(f"enqueue.{user}", {**bad, "key": f"k{n}"}) for n in range(8)]))
    for user in ("alice", "bob"):
        subject, letters = f"user.{user}.deadletter.list", []
        while len(letters) < 8:
            letters = site.ask(user, subject)["letters"]
        site.letters[user] = [letter["id"] for letter in letters]
    return site


_NAMES = count()
_BAD = {"kind": "whatif", "weights": {"no such!": 1.0}}
"""A report that is refused after the rights were checked, so that none is computed."""

REQUESTS = {
    "job.submit": lambda _site, of: {**JOB, "user": of},
    "job.submit urgency": lambda _site, _of: {**JOB, "urgency": 20},
    "job.test": lambda _site, of: {**JOB, "user": of},
    "job.cancel": lambda site, of: {"id": site.jobs[of, "waits"], "dry_run": True},
    "job.hold": lambda site, of: {"id": site.jobs[of, "waits"], "dry_run": True},
    "job.release": lambda site, of: {"id": site.jobs[of, "held"], "dry_run": True},
    "job.release of an administrator's hold": lambda site, of: {"id": site.jobs[of, "kept"], "dry_run": True},
    "job.retry": lambda site, of: {"id": site.jobs[of, "waits"]},
    "job.signal": lambda site, of: {"id": site.jobs[of, "waits"], "signal": "USR1", "dry_run": True},
    "job.update": lambda site, of: {"id": site.jobs[of, "waits"], "comment": "x", "dry_run": True},
    "job.update fixed_priority": lambda site, of: {"id": site.jobs[of, "waits"], "fixed_priority": 7, "dry_run": True},
    **dict.fromkeys(
        ("job.show", "job.show env", "job.script", "job.log", "job.attach", "job.why", "job.when", "job.history"),
        lambda site, of: {"id": site.jobs[of, "waits"]},
    ),
    **dict.fromkeys(
        ("job.list", "job.acct", "priority.list", "job.events", "deadletter.list"), lambda _site, of: {"users": [of]}
    ),
    "deadletter.retry": lambda site, of: {"ids": [site.letters[of][0]]},
    "deadletter.drop": lambda site, of: {"ids": [site.letters[of].pop()]},
    "report.make": lambda _site, _of: _BAD,
    "report.make gap": lambda _site, _of: {"kind": "gap"},
    "report.make whatif": lambda _site, _of: _BAD,
    "report.make files": lambda _site, _of: {**_BAD, "files": {}},
    **{
        f"report.make {kind}": lambda _site, _of, kind=kind: {**_BAD, "kind": kind}
        for kind in ("dump", "replay", "reload", "configurations")
    },
    "report.part": lambda _site, _of: {"report": "none"},
    "page.look": lambda _site, _of: {"look": "queue"},
    "page.look for the page": lambda _site, _of: {"look": "settings"},
    **dict.fromkeys(
        (
            "site.show", "schema.show", "node.list", "queue.list", "share.list", "service.list", "diag.show",
            "class.list", "config.reload", "device.list", "stream.check",
        ),
        lambda _site, _of: {},
    ),
    "stream.rebuild": lambda _site, _of: {"unknown": True},
    "diag.show reset": lambda _site, _of: {"reset": True},
    "class.show": lambda _site, _of: {"name": "system-node-critical"},
    "class.create": lambda _site, _of: {"name": f"c{next(_NAMES)}", "value": 1},
    "class.update": lambda _site, _of: {"name": "none", "value": 1},
    "class.delete": lambda _site, _of: {"name": "none"},
    **dict.fromkeys(("node.drain", "node.resume", "node.undrain"), lambda _site, _of: {"node": "none"}),
    **dict.fromkeys(
        ("node.device_drain", "node.device_resume", "node.device_fail"),
        lambda _site, _of: {"node": "none", "device": "none"},
    ),
}  # fmt: skip
"""For each row of the table, a request that changes nothing, about things of the user ``of``."""


def is_refused(action: str, answer: dict) -> bool:
    if action == "job.show env":
        return "env" not in answer
    codes = {answer.get("code"), *(failed["code"] for failed in answer.get("failed") or ())}
    return bool(codes & REFUSALS)


@pytest.mark.parametrize("action", TABLE)
@pytest.mark.parametrize("role", ROLES)
def test_each_cell_is_as_the_table_says(site, role, action):
    who = ROLES[role]
    body = REQUESTS[action](site, who.owner)
    answer = site.ask(who.user, f"{who.subject}.{action.split()[0]}", body)
    cell = TABLE[action][who.column]
    assert cell in ("yes", "no", "privacy"), cell
    assert is_refused(action, answer) is (cell == "no"), (cell, answer)
    if answer.get("code") in REFUSALS:
        assert "internal" not in answer["message"]


def test_the_table_has_every_verb_of_the_service(site):
    endpoints = asyncio.run(_endpoints(site))
    verbs = {endpoint["metadata"]["verb"] for endpoint in endpoints if "verb" in (endpoint["metadata"] or {})}
    assert verbs == {action.split()[0] for action in TABLE}
    assert len(verbs) > 30


async def _endpoints(site: Site) -> list[dict]:
    connection = PatientClient()
    await connection.connect(site.machine.up["nats"], user_credentials=str(site.creds["services"]))
    try:
        return json.loads((await connection.request("$SRV.INFO.rankd", b"", timeout=PATIENCE_S)).data)["endpoints"]
    finally:
        await connection.close()


def test_who_administers_a_queue_acts_there_only_and_ends_no_other_ones_hold(site):
    here = site.ask("bob", "user.bob.job.submit", JOB)["id"]
    there = site.ask("bob", "user.bob.job.submit", {**JOB, "queue": "other"})["id"]

    def done(verb: str, **more: object) -> dict:
        return site.ask("quinn", f"user.quinn.{verb}", more)

    assert done("job.hold", id=here)["done"] == [here]
    assert site.ask("bob", "user.bob.job.release", {"id": here})["code"] == "admin_hold"
    assert done("job.release", id=here)["done"] == [here]
    assert site.ask("bob", "user.bob.job.hold", {"id": here})["done"] == [here]
    assert done("job.release", id=here)["done"] == [here]
    assert done("job.release", id=site.jobs["bob", "kept"])["code"] == "admin_hold"
    assert done("job.update", id=here, urgency=16, comment="x")["done"] == [here]
    assert done("job.update", id=here, urgency=17)["code"] == "urgency_not_allowed"
    assert done("job.update", id=here, fixed_priority=2_000_000)["code"] == "admins_only"
    for verb in ("job.hold", "job.cancel"):
        assert done(verb, id=there)["code"] == "not_owner"
    both = done("job.cancel", filter={"users": ["bob"]}, dry_run=True)
    assert here in both["done"]
    assert there in [failed["id"] for failed in both["failed"]]
    own = done("job.cancel", filter={"queues": ["root.default"]})  # nobody is named: own jobs only
    assert own["done"] == []
    assert done("job.cancel", ids=[here])["done"] == [here]
    assert site.ask("bob", "user.bob.job.cancel", {"id": there})["done"] == [there]
    [event] = site.machine.rows("SELECT actor FROM job_event WHERE job_id = ? AND event = 'cancel'", here)
    assert event == {"actor": "quinn"}


def test_an_operator_has_the_rights_of_one_with_and_without_saying_so_and_no_more(site):
    for subject in ("user.olga", "user.olga.as-admin"):
        assert site.ask("olga", f"{subject}.node.drain", {"node": "none"})["code"] == "unknown_node"
    for verb in ("config.reload", "job.cancel", "class.create", "job.list"):
        answer = site.ask("olga", f"user.olga.as-admin.{verb}", {"id": site.jobs["bob", "waits"]})
        assert answer["code"] == "admins_only", verb


def test_nobody_is_an_administrator_by_saying_so(site):
    for user in ("alice", "bob", "olga"):
        answer = site.ask(user, f"user.{user}.as-admin.job.list")
        assert answer["code"] == "admins_only"
        assert f"'{user}' is not an administrator here" in answer["message"]


def test_a_configured_administrator_who_does_not_say_so_is_an_ordinary_user(site):
    assert site.ask("adam", "user.adam.job.cancel", {"id": site.jobs["bob", "waits"]})["code"] == "not_owner"
    assert site.ask("adam", "user.adam.config.reload")["code"] == "admins_only"


def as_user(site: Site, user: str, *words: str, status: int = 0) -> str:
    """A command with this user's credentials; what it printed."""
    place = ["--nats", site.machine.up["nats"], "--creds", str(site.creds[user])]
    done = subprocess.run(
        [*RANKD, *words, *place], capture_output=True, text=True, check=False, cwd=site.machine.directory.parent
    )
    assert done.returncode == status, done
    return done.stdout if status == 0 else done.stderr


def test_commands_ask_with_the_rights_that_the_configuration_gives(site):
    job = str(site.jobs["bob", "waits"])
    as_user(site, "adam", "hold", "--admin", job)
    as_user(site, "adam", "release", "--admin", job)
    assert "not an administrator" in as_user(site, "alice", "hold", "--admin", job, status=1)
    assert "there is no node 'none'" in as_user(site, "olga", "node", "drain", "none", status=1)
    assert "is for operators and administrators" in as_user(site, "alice", "node", "drain", "none", status=1)


def test_why_and_show_say_that_an_administrator_holds_the_job_and_release_does_not_help(site):
    job = str(site.jobs["alice", "kept"])
    assert "an administrator can release it" in as_user(site, "alice", "why", job)
    assert re.search(r"^held_by +carol$", as_user(site, "alice", "show", job), re.MULTILINE)
    assert "held by the administrator 'carol'" in as_user(site, "alice", "release", job, status=1)


def test_a_name_that_is_taken_off_the_list_has_no_more_rights(site):
    settings = site.machine.directory.parent / "etc" / "rankd.toml"
    subject, job = "user.adam.as-admin.job.hold", {"id": site.jobs["bob", "waits"], "dry_run": True}
    assert site.ask("adam", subject, job)["done"]
    try:
        settings.write_text(SETTINGS.replace('admins = ["adam"]', "admins = []"))
        site.machine.rankd("reload", "--admin")
        assert site.ask("adam", subject, job)["code"] == "admins_only"
    finally:
        settings.write_text(SETTINGS)
        site.machine.rankd("reload", "--admin")
    assert site.ask("adam", subject, job)["done"]
