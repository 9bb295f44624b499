"""Invitations of users: one use, whatever happens, and nothing else that they let anybody do."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import time
from pathlib import Path

import msgspec
import nats.errors
import pytest
from system.conftest import Machine
from system.home import Home
from system.test_gateway import ONE, log_in, shared  # noqa: F401 - a fixture
from watch import PATIENCE_S

from rankd.bus.client import PatientClient
from rankd.bus.enrolment import exchange
from rankd.bus.login import log_in_again
from rankd.core.errors import Refused
from rankd.identity.invitation import read_invitation
from rankd.identity.key import KeyKind, new_key

QUIET_S = 0.3


@pytest.fixture
def head(machine) -> Machine:
    machine.start("--no-local-agent")
    return machine


@pytest.fixture(scope="module")
def common(shared_machine) -> Machine:
    """As :func:`head`, one for the tests that leave nothing behind but invitations and logins."""
    shared_machine.start("--no-local-agent")
    return shared_machine


@pytest.fixture
def homes(tmp_path):
    """Makes homes, each with its own files."""

    def make(name: str) -> Home:
        return Home(tmp_path / "homes" / name)

    return make


def invite(machine: Machine, user: str, *more: str) -> str:
    return machine.rankd("auth", "invite", user, *more)


def members(machine: Machine) -> dict[str, dict]:
    listed = json.loads(machine.rankd("auth", "user", "list", "--json"))
    return {f"{'node' if one['role'] == 'node' else 'user'} {one['name']}": one for one in listed}


def test_a_token_is_exchanged_for_credentials_that_all_commands_find(head, homes):
    token = invite(head, "alice")
    assert members(head)["user alice"]["invited_until"] > time.time() + 3_000
    alice = homes("alice")
    assert "you are user 'alice'" in alice.run("login", token=token)
    assert "Submitted batch job 1" in alice.run("submit", "--", "true")
    assert "alice" in alice.run("list")
    [job] = head.rows("SELECT user FROM job")
    assert job == {"user": "alice"}
    assert stat.S_IMODE(alice.files.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in alice.files.iterdir()} == {
        "client.toml": 0o600, "login.creds": 0o600,
    }  # fmt: skip
    listed = members(head)["user alice"]
    assert (listed["role"], listed["invited_until"], listed["revoked_at"]) == ("user", None, None)
    assert listed["until"] > time.time() + 80 * 86_400


def test_a_token_is_used_once_and_whoever_comes_later_is_told_so(common, homes):
    token = invite(common, "alice")
    homes("alice").run("login", token)
    said = homes("mallory").run("login", token, status=1)
    assert "this invitation was used at" in said
    assert "If it was not you, tell your administrator" in said
    assert not (homes("mallory").files / "client.toml").exists()


def test_of_many_who_come_at_the_same_time_one_gets_in(common, homes):
    token = invite(common, "alice")
    started = [homes(f"h{number}").start("login", token=token) for number in range(6)]
    ended = [(process.communicate(timeout=PATIENCE_S), process.returncode) for process in started]
    assert sorted(status for _, status in ended) == [0, 1, 1, 1, 1, 1]
    assert all("was used at" in errors for (_, errors), status in ended if status)


async def test_the_same_key_may_ask_again_and_another_may_not(head, tmp_path):
    """As when the gateway ends, or the answer is lost, after the use was recorded."""
    invitation = read_invitation(invite(head, "alice"))
    first = await exchange(invitation, tmp_path / "key")
    killed = head.up["pids"]["gateway"]
    head.kill("gateway")
    async with asyncio.timeout(PATIENCE_S):
        while head.up["pids"].get("gateway") in (killed, None):
            await asyncio.sleep(0.1)
    again = await exchange(invitation, tmp_path / "key")
    assert again.credentials.claims().public == first.credentials.claims().public
    with pytest.raises(Refused) as refused:
        await exchange(invitation, tmp_path / "other-key")
    assert refused.value.code == "used_token"


CRASH = """
import os, pathlib, sys
mark = pathlib.Path({mark!r})
if not {{"gateway", "up"}}.isdisjoint(sys.orig_argv):  # executed, or forked by `rankd up`
    from rankd.services.gateway.enrolment import Enrolment

    grant = Enrolment._grant

    async def die(*given):
        if mark.exists():
            return await grant(*given)
        mark.touch()
        os.kill(os.getpid(), 9)

    Enrolment._grant = die
"""
"""Kills the gateway, once, on the line between recording the use of an invitation and signing the answer."""


async def test_a_gateway_that_is_killed_before_it_answers_answers_the_same_key_and_no_other(
    machine, tmp_path, monkeypatch
):
    mark = tmp_path / "killed"
    (tmp_path / "sitecustomize.py").write_text(CRASH.format(mark=str(mark)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    machine.start("--no-local-agent")
    invitation = read_invitation(invite(machine, "alice"))
    enrolled = await exchange(invitation, tmp_path / "key")  # it asks again
    assert mark.exists()
    [used] = json.loads((machine.directory / "auth" / "register.json").read_bytes())["invitations"].values()
    assert used["used_by"] == enrolled.credentials.claims().public
    with pytest.raises(Refused) as refused:
        await exchange(invitation, tmp_path / "other-key")
    assert refused.value.code == "used_token"
    again = await exchange(invitation, tmp_path / "key")
    assert again.credentials.claims().public == enrolled.credentials.claims().public


def test_a_token_that_ended_is_refused_with_the_time(common, homes):
    token = invite(common, "alice", "--lasts", "1s")
    time.sleep(1.1)
    assert "this invitation ended at" in homes("alice").run("login", token=token, status=1)


def test_a_guess_learns_nothing(common, homes):
    real = read_invitation(invite(common, "alice"))
    guess = msgspec.structs.replace(real, secret=real.secret[::-1]).text()
    said = homes("mallory").run("login", token=guess, status=1)
    assert "rankd does not know this invitation" in said
    assert "alice" not in said
    homes("alice").run("login", token=real.text())


def test_a_token_of_another_site_is_refused_in_one_line(common, homes, tmp_path):
    other = Machine(tmp_path / "other")
    try:
        other.start("--no-local-agent")
        token = invite(other, "alice", "--url", common.up["nats"])
    finally:
        other.end()
    said = homes("alice").run("login", token=token, status=1)
    assert "does not know this invitation: it ended, or it is of another site; ask for a new one" in said


@pytest.mark.parametrize("text", ["", "hello", "rankd-", "rankd-AAAA", "x" * 100_000])
def test_a_text_that_is_no_token_is_refused(homes, text):
    assert "this is not the token of an invitation" in homes("alice").run("login", token=text, status=1)


async def test_an_invitation_reaches_nothing_else(head):
    """Its credentials may only be exchanged: not ask as a user, and hear nobody."""
    ours, others = read_invitation(invite(head, "alice")), read_invitation(invite(head, "bob"))
    spying, asking = await connected(head, ours), await connected(head, others)
    try:
        heard: list = []

        async def keep(message):
            heard.append(message.subject)

        for subject in (">", "rankd.v1.enrol", "_INBOX.>", f"_INBOX.{others.credentials.claims().public}.>"):
            await spying.subscribe(subject, cb=keep)
        await spying.flush()
        for subject in (
            "rankd.v1.user.alice.job.list", "rankd.v1.user.alice.login.renew", "rankd.v1.admin.root.config.reload",
            "rankd.v1.node.n1.register", "rankd.v1.internal.health.gateway", "$JS.API.INFO", "$SYS.REQ.CLAIMS.UPDATE",
        ):  # fmt: skip
            with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
                await asking.request(subject, b"{}", timeout=QUIET_S)
        request = {"secret": others.secret, "key": new_key(KeyKind.USER).public}
        reply = await asking.request("rankd.v1.enrol", json.dumps(request).encode(), timeout=5)
        assert json.loads(reply.data)["name"] == "bob"
        await asyncio.sleep(QUIET_S)
        assert heard == []
    finally:
        await spying.close()
        await asking.close()


async def connected(head, invitation) -> PatientClient:
    """A plain client with the credentials of an invitation."""

    async def ignore(_error):
        pass

    file = Path(head.directory.parent / f"{invitation.name}.creds")
    file.write_text(invitation.credentials.text())
    client = PatientClient()
    inbox = f"_INBOX.{invitation.credentials.claims().public}"
    await client.connect(head.up["nats"], user_credentials=str(file), error_cb=ignore, inbox_prefix=inbox)
    return client


CODES = ("bad_request", "bad_field", "missing_field", "unknown_field", "too_long", "bad_key")
BODIES = [
    b"", b"{", b"[]", b"{}", b'{"secret":"x"}', b'{"secret":1,"key":2}', b'{"secret":"x","key":"y","more":1}',
    b'{"secret":"' + b"x" * 3_000 + b'","key":"y"}', b"\xff", b"[" * 3_000,
]  # fmt: skip


async def test_hostile_requests_are_answered_and_harm_nobody(head, homes):
    token = invite(head, "alice")
    client = await connected(head, read_invitation(token))
    try:
        for body in BODIES:
            reply = await client.request("rankd.v1.enrol", body, timeout=5)
            assert json.loads(reply.data)["code"] in CODES, body
    finally:
        await client.close()
    assert "you are user 'alice'" in homes("alice").run("login", token=token)


async def test_a_flood_of_guesses_is_bounded_and_others_still_get_in(head, homes):
    token = invite(head, "alice")
    client = await connected(head, read_invitation(token))
    guess = json.dumps({"secret": "x" * 32, "key": new_key(KeyKind.USER).public}).encode()
    try:
        asked = [client.request("rankd.v1.enrol", guess, timeout=30) for _ in range(400)]
        codes = [json.loads(reply.data)["code"] for reply in await asyncio.gather(*asked)]
    finally:
        await client.close()
    assert codes.count("busy") > 200
    assert set(codes) == {"busy", "bad_token"}
    assert "you are user 'alice'" in homes("alice").run("login", token=token)


def test_revoking_ends_credentials_and_open_invitations(head, homes):
    used, still_open = invite(head, "alice"), invite(head, "alice")
    alice = homes("alice")
    alice.run("login", token=used)
    assert "is revoked" in head.rankd("auth", "user", "revoke", "alice")
    assert "does not accept the credentials of 'alice'" in alice.run("submit", "--", "true", status=1)
    said = homes("again").run("login", token=still_open, status=1)
    assert "revoked the access of 'alice', and this invitation" in said
    assert members(head)["user alice"]["revoked_at"] is not None
    assert "you are user 'alice'" in alice.run("login", token=invite(head, "alice"))
    assert "Submitted" in alice.run("submit", "--", "true")
    assert "revoked the access of 'alice', and this invitation" in homes("again").run("login", token=used, status=1)


def test_only_known_names_are_revoked(common):
    for words in (["user", "revoke", "no-one"], ["revoke", "--user", "no-one"], ["revoke", "--node", "n9"]):
        assert "nobody of this name was given credentials or invited" in common.rankd_fails("auth", *words)
    assert "is revoked" in common.rankd("auth", "revoke", "--user", "nobody")  # a user of this machine
    common.rankd("auth", "user", "add", "bob")
    assert "is revoked" in common.rankd("auth", "user", "revoke", "bob")
    assert "can't be shut out" in common.rankd_fails("auth", "user", "revoke", members_owner(common), status=2)


def members_owner(head) -> str:
    [owner] = [one["name"] for one in members(head).values() if one["role"] == "administrator"]
    return owner


@pytest.mark.parametrize("name", ["a\nb", "x" * 300, "\x1b[31m"])
def test_a_name_that_no_user_can_have_is_refused(common, name):
    for words in (["user", "add", name], ["invite", name], ["user", "revoke", name], ["revoke", "--user", name]):
        assert "has to have 1 to 256 printable characters" in common.rankd_fails("auth", *words)
    assert "node" in common.rankd_fails("node", "enrol", "n[1-2]", status=2)


def test_credentials_of_before_there_was_a_register_can_be_revoked(head):
    head.credentials("user", "alice")
    (head.directory / "auth" / "register.json").unlink()
    assert "is revoked" in head.rankd("auth", "revoke", "--user", "alice")


def test_renewing_replaces_credentials_and_needs_no_token(head, homes):
    alice = homes("alice")
    assert "give the token of an invitation" in alice.run("login", "--renew", status=2)
    alice.run("login", token=invite(head, "alice"))
    before = (alice.files / "login.creds").read_text()
    assert "you are user 'alice'" in alice.run("login", "--renew")
    assert (alice.files / "login.creds").read_text() != before
    assert "Submitted" in alice.run("submit", "--", "true")
    head.rankd("auth", "user", "revoke", "alice")
    assert "does not accept the credentials" in alice.run("login", "--renew", status=1)


async def test_credentials_for_a_time_can_not_be_renewed(head, tmp_path):
    """Those of a file, and those of the login socket: they would outlive the end that was given to them."""
    short = tmp_path / "short.creds"
    head.rankd("auth", "creds", "--user", "alice", "--lasts", "1h", "--out", str(short))
    node = tmp_path / "node.creds"
    head.rankd("auth", "creds", "--node", "n2", "--lasts", "1h", "--out", str(node))
    own = log_in_again(head.directory / "login.sock")
    local = tmp_path / "local.creds"
    local.write_text(own.creds)
    for file, subject in (
        (short, "rankd.v1.user.alice.login.renew"),
        (node, "rankd.v1.node.n2.renew"),
        (local, f"rankd.v1.user.{own.user}.login.renew"),
    ):
        client = PatientClient()
        await client.connect(head.up["nats"], user_credentials=str(file))
        try:
            body = json.dumps({"key": new_key(KeyKind.USER).public}).encode()
            answer = json.loads((await client.request(subject, body, timeout=5)).data)
        finally:
            await client.close()
        assert answer.get("code") == "not_enrolled", (subject, answer)


def test_a_site_is_prepared_before_it_starts(machine, homes):
    assert "a new site" in machine.rankd("auth", "init", "--dir", str(machine.directory))
    before = {path.name: path.read_text() for path in (machine.directory / "auth").iterdir()}
    assert "is there already" in machine.rankd("auth", "init", "--dir", str(machine.directory))
    assert {path.name: path.read_text() for path in (machine.directory / "auth").iterdir()} == before
    assert stat.S_IMODE(machine.directory.stat().st_mode) == 0o700
    machine.rankd("auth", "user", "add", "bob", "--admin")
    assert "give --url" in machine.rankd_fails("auth", "invite", "bob", status=2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    token = invite(machine, "bob", "--url", f"nats://127.0.0.1:{port}")
    machine.start("--no-local-agent", "--port", port)
    bob = homes("bob")
    assert "you are administrator 'bob'" in bob.run("login", token=token)
    assert "Submitted" in bob.run("submit", "--admin", "--", "true")


def test_a_token_goes_to_a_private_file(common):
    file = common.directory.parent / "alice.token"
    assert invite(common, "alice", "--out", str(file)) == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_invitation(file.read_text()).name == "alice"


def test_an_invitation_has_to_end(common):
    for lasts in ("unlimited", "31d", "0"):
        assert "rankd:" in common.rankd_fails("auth", "invite", "alice", "--lasts", lasts, status=2)


def test_secrets_of_invitations_are_kept_by_nobody(common, homes):
    invitation = read_invitation(invite(common, "alice"))
    homes("alice").run("login", token=invitation.text())
    kept = [path for path in common.directory.rglob("*") if path.is_file()]
    assert not [path for path in kept if invitation.secret.encode() in path.read_bytes()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_an_administrator_stays_one_who_logs_in_at_the_socket(shared, homes):  # noqa: F811
    file = shared.directory.parent / "daemon.creds"
    shared.rankd("auth", "creds", "--admin", "--user", "daemon", "--out", str(file))
    words = ("submit", "--nats", shared.up["nats"], "--creds", str(file), "--admin", "--urgency", "17", "--", "true")
    assert log_in(ONE, shared)["user"] == "daemon"
    assert "Submitted" in homes("daemon").run(*words)
    file.write_text(log_in(ONE, shared)["creds"])
    assert "Submitted" in homes("daemon").run(*words)
    shared.rankd("auth", "user", "add", "daemon")
    file.write_text(log_in(ONE, shared)["creds"])
    assert "'daemon' is not an administrator here" in homes("daemon").run(*words, status=1)
    assert members(shared)["user daemon"]["role"] == "user"
