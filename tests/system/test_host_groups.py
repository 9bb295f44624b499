"""Groups of the head's user database in every list that names groups: a real rankd up, users and groups made here."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from system.conftest import Machine
from watch import PATIENCE_S

from rankd.bus.client import PatientClient

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and groups")

TAG = secrets.token_hex(3)
GROUP, MEMBER, OUTSIDER, LISTED = f"rkd{TAG}g", f"rkd{TAG}m", f"rkd{TAG}o", f"rkd{TAG}l"
"""LISTED is in the group on this machine, and in another one by accounts.yaml."""

SETTINGS = f"""
[priority]
period_s = 0.3
[admission]
unknown_association = "default"
admin_groups = ["{GROUP}"]
operator_groups = ["{GROUP}"]
host_groups = "RULE"
[[qos]]
name = "normal"
[[qos]]
name = "high"
groups = ["{GROUP}"]
"""
ACCOUNTS = f"""
accounts: [{{name: default}}, {{name: project, access: {{groups: [{GROUP}]}}}}]
groups: [{{name: others, users: [{LISTED}]}}]
"""
CLASSES = f"""
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: urgent, annotations: {{rankd/groups: {GROUP}}}}}
value: 10000
"""
QUEUES = f"""
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {{name: default, submitacl: "*"}}
          - {{name: closed, submitacl: " {GROUP}"}}
          - {{name: led, submitacl: "*", adminacl: " {GROUP}"}}
          - name: small
            submitacl: "*"
            limits: [{{limit: l, groups: [{GROUP}], maxresources: {{vcore: "2"}}}}]
"""
WAYS = {
    "queue_access": {"queue": "root.closed"},
    "qos_access": {"qos": "high"},
    "class_access": {"priority_class": "urgent"},
    "account_access": {"account": "project"},
}
JOB = {"command": ["true"], "constraints": "never"}


def run(*command: str, must: bool = True) -> None:
    subprocess.run(command, check=must, capture_output=not must)


@pytest.fixture(scope="module")
def people():
    run("groupadd", GROUP)
    try:
        for user in (MEMBER, LISTED):
            run("useradd", "--no-create-home", "--groups", GROUP, user)
        run("useradd", "--no-create-home", OUTSIDER)
        yield
    finally:
        for user in (MEMBER, OUTSIDER, LISTED):
            run("userdel", user, must=False)
        run("groupdel", GROUP, must=False)


class Site(NamedTuple):
    """A rankd up, and credentials by user."""

    machine: Machine
    config: Path
    creds: dict[str, Path]

    def ask(self, user: str, verb: str, body: object = None, *, claims: bool = False) -> dict:
        subject = f"rankd.v1.user.{user}.{'as-admin.' if claims else ''}{verb}"
        return asyncio.run(self._ask(self.creds[user], subject, body or {}))

    async def _ask(self, creds: Path, subject: str, body: object) -> dict:
        connection = PatientClient()
        await connection.connect(self.machine.up["nats"], user_credentials=str(creds))
        try:
            return json.loads((await connection.request(subject, json.dumps(body).encode(), timeout=PATIENCE_S)).data)
        finally:
            await connection.close()

    def submit(self, user: str, **fields: object) -> str | None:
        """The code of the refusal; None if the job is accepted."""
        return self.ask(user, "job.submit", {**JOB, **fields}).get("code")

    def use(self, rule: str) -> None:
        (self.config / "rankd.toml").write_text(SETTINGS.replace("RULE", rule))
        self.machine.rankd("reload", "--admin")


@pytest.fixture(scope="module")
def site(people, tmp_path_factory):  # noqa: ARG001 - the users are there before rankd is
    home = tmp_path_factory.mktemp("groups")
    config = home / "etc"
    config.mkdir()
    (config / "rankd.toml").write_text(SETTINGS.replace("RULE", "users"))
    (config / "accounts.yaml").write_text(ACCOUNTS)
    (config / "priorityclasses.yaml").write_text(CLASSES)
    (config / "queues.yaml").write_text(QUEUES)
    machine = Machine(home / "state")
    machine.start("--config", str(config), "--no-local-agent", "--simulate", "1")
    try:
        yield Site(machine, config, {user: machine.credentials("user", user) for user in (MEMBER, OUTSIDER, LISTED)})
    finally:
        machine.end()


@pytest.mark.parametrize("code", WAYS)
def test_a_member_on_the_head_may_use_what_the_group_may(site, code):
    site.use("users")
    assert site.submit(MEMBER, **WAYS[code]) is None
    assert site.submit(OUTSIDER, **WAYS[code]) == code
    assert site.submit(LISTED, **WAYS[code]) == code, "accounts.yaml says in which groups this user is"
    site.use("none")
    assert site.submit(MEMBER, **WAYS[code]) == code


def test_a_limit_of_a_group_holds_its_members_on_the_head(site):
    site.use("users")
    large = {"queue": "root.small", "resources": {"vcore": 4}, "account": "default"}
    assert (site.submit(MEMBER, **large), site.submit(OUTSIDER, **large)) == ("user_limit", None)
    site.use("none")
    assert site.submit(MEMBER, **large) is None


def test_a_job_keeps_the_groups_and_commands_on_the_records_decide_as_the_intake_did(site, tmp_path):
    site.use("users")
    job = site.ask(MEMBER, "job.submit", {**JOB, "qos": "high"})["id"]
    groups = sorted([GROUP, MEMBER])
    [row] = site.machine.rows("SELECT groups FROM jobs WHERE id = ?", job)
    assert json.loads(row["groups"]) == groups
    (new := tmp_path / "new.json").write_text(json.dumps({**JOB, "queue": "root.closed"}))
    for user, refused in ((MEMBER, False), (OUTSIDER, True)):
        said = site.machine.rankd("whatif", "--submit", str(new), "--as", user)
        assert ("would be refused" in said) == refused, said


def test_nobody_becomes_an_administrator_by_a_group_of_the_host_unless_the_configuration_says_so(site):
    site.use("users")
    other = site.ask(OUTSIDER, "job.submit", {**JOB, "queue": "root.led"})["id"]
    assert site.ask(MEMBER, "config.reload", claims=True)["code"] == "admins_only"
    assert site.ask(MEMBER, "node.drain", {"nodes": ["sim-1"], "reason": "x"})["code"] == "admins_only"
    assert site.ask(MEMBER, "job.hold", {"id": other})["code"] == "not_owner"
    site.use("all")
    assert "code" not in site.ask(MEMBER, "job.hold", {"id": other})
    assert "code" not in site.ask(MEMBER, "node.drain", {"nodes": ["sim-1"], "reason": "x"})
    assert "code" not in site.ask(MEMBER, "node.resume", {"nodes": ["sim-1"]})
    assert "code" not in site.ask(MEMBER, "config.reload", claims=True)
    assert site.ask(OUTSIDER, "config.reload", claims=True)["code"] == "admins_only"
    assert site.ask(LISTED, "config.reload", claims=True)["code"] == "admins_only"


def test_an_administrator_submits_for_a_user_with_that_users_groups(site):
    site.use("users")
    large = json.dumps({**JOB, "queue": "root.small", "resources": {"vcore": 4}})
    file = site.config / "large.json"
    file.write_text(large)
    fresh = site.machine.rankd_fails("submit", "--admin", "--user", MEMBER, "--file", str(file))
    assert "limit" in fresh
    site.machine.rankd("submit", "--admin", "--user", OUTSIDER, "--file", str(file))


def test_a_group_that_accounts_yaml_defines_has_no_users_of_the_hosts_group_of_that_name(site):
    site.use("all")
    assert site.submit(MEMBER, qos="high") is None
    accounts = site.config / "accounts.yaml"
    accounts.write_text(f"{ACCOUNTS.rstrip()[:-1]}, {{name: {GROUP}, users: [{OUTSIDER}]}}]\n")
    try:
        site.use("all")
        assert site.submit(MEMBER, qos="high") == "qos_access"
        assert site.submit(OUTSIDER, qos="high") is None
        assert site.ask(MEMBER, "config.reload", claims=True)["code"] == "admins_only"
    finally:
        accounts.write_text(ACCOUNTS)
