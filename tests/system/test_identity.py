"""Who reaches what, over a real broker with authentication on, by plain NATS clients with real credentials."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import nats
import nats.errors
import pytest
from system.conftest import RANKD
from watch import PATIENCE_S

from rankd.bus.client import PatientClient

QUIET_S = 0.3
"""After a round trip: whatever a broker on this machine delivers has come by then."""
JOB = {"command": ["true"], "resources": {"vcore": 1000}}
"""It waits for ever."""


def writing(machine):
    """A function that writes credentials, each in a file of its own."""
    numbers = count()

    def write(role: str, name: str, *more: str) -> Path:
        file = machine.directory.parent / f"{role}-{name}-{next(numbers)}.creds"
        machine.rankd("auth", "creds", f"--{role}", name, *more, "--out", str(file))
        return file

    return write


@pytest.fixture
def creds(machine):
    """Starts ``rankd up`` and returns a function that writes credentials."""
    machine.start("--name", "here")
    return writing(machine)


@pytest.fixture(scope="module")
def site(shared_machine):
    """One for the tests that stop nothing, and revoke only what no other test has."""
    shared_machine.start("--name", "here")
    return shared_machine


@pytest.fixture(scope="module")
def issue(site):
    """As :func:`creds`, of the shared site."""
    return writing(site)


@asynccontextmanager
async def client_of(machine, credentials: Path | None):
    """A plain client; it hears nothing but what it subscribes to."""

    async def ignore(_error):
        pass

    given = {} if credentials is None else {"user_credentials": str(credentials)}
    connection = PatientClient()
    await connection.connect(machine.up["nats"], error_cb=ignore, allow_reconnect=False, **given)
    try:
        yield connection
    finally:
        await connection.close()


def is_refused(machine, credentials: Path | None) -> None:
    """The broker does not let such a client in, and the command says so."""
    given = [] if credentials is None else ["--creds", str(credentials)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    done = subprocess.run(
        [*RANKD, "submit", "--nats", machine.up["nats"], *given, "--", "true"],
        capture_output=True, text=True, check=False, cwd=machine.directory.parent, env=environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert ("does not accept the credentials" if given else "give --creds FILE") in done.stderr


async def asked(connection, subject: str, body: object = None) -> dict | str:
    """The answer; the name of the error without one."""
    try:
        reply = await connection.request(subject, json.dumps(body or {}).encode(), timeout=2)
    except (nats.errors.NoRespondersError, nats.errors.TimeoutError) as error:
        return type(error).__name__
    if code := (reply.headers or {}).get("Nats-Service-Error-Code"):
        return code
    return json.loads(reply.data)


async def heard(connection, subject: str = ">") -> list:
    """A list that grows with what this connection hears, but for answers to its own requests."""
    messages: list = []

    async def keep(message):
        if not message.subject.startswith("_INBOX."):
            messages.append(message)

    await connection.subscribe(subject, cb=keep)
    await connection.flush()
    return messages


def test_nobody_connects_without_credentials(site, tmp_path):
    for given in (None, _of_another_site(tmp_path)):
        is_refused(site, given)


def _of_another_site(directory: Path) -> Path:
    from rankd.identity.credentials import write_private
    from rankd.identity.site import Role, Site

    file = directory / "foreign.creds"
    write_private(file, Site(os.urandom(32)).credentials(Role.SERVICES, "", 1.0).text())
    return file


def test_secrets_are_private_and_on_no_command_line(site):
    auth = site.directory / "auth"
    assert stat.S_IMODE(auth.stat().st_mode) == 0o700
    files = [path for path in auth.iterdir() if path.is_file()]
    names = {
        "site.key",
        "services.creds",
        "node.creds",
        "notifier.creds",
        "web.creds",
        "web-gateway.creds",
        "admin.creds",
        "register.json",
    }
    assert {path.name for path in files} == names
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    secret = (auth / "site.key").read_text().strip()
    seeds = [path.read_text().split("SEED-----\n")[1].split("\n")[0] for path in files if path.suffix == ".creds"]
    texts = [(site.directory / "up.json").read_text()]
    texts += [path.read_text() for path in (site.directory / "log").iterdir()]
    texts += [Path(f"/proc/{pid}/cmdline").read_text() for pid in site.up["pids"].values()]
    texts += [Path(f"/proc/{pid}/environ").read_text() for pid in site.up["pids"].values()]
    assert not [text for text in texts for word in (secret, *seeds) if word in text]


TABLE = [  # who asks, subject, whether somebody answers
    ("user", "rankd.v1.user.alice.job.list", True),
    ("user", "rankd.v1.user.bob.job.list", False),
    ("user", "rankd.v1.user.root.job.list", False),
    ("user", "rankd.v1.user.alice.as-admin.job.list", True),  # by the intake, which refuses
    ("user", "rankd.v1.user.bob.as-admin.job.list", False),
    ("user", "rankd.v1.admin.alice.job.list", False),
    ("user", "rankd.v1.admin.root.config.reload", False),
    ("user", "rankd.v1.node.here.take", False),
    ("user", "rankd.v1.node.here.report", False),
    ("user", "rankd.v1.enqueue.alice", False),
    ("user", "rankd.v1.enqueue.bob", False),
    ("user", "rankd.v1.internal.health.intake", False),
    ("user", "rankd.v1.internal.diag.scheduler", False),
    ("user", "$JS.API.STREAM.NAMES", False),
    ("user", "$SYS.REQ.SERVER.PING", False),
    ("user", "$SYS.REQ.CLAIMS.UPDATE", False),
    ("user", "$SRV.PING", False),
    ("user", "rankd.v1.gateway.head.alice.job.list", False),
    ("user", "rankd.v1.gateway.head.bob.job.list", False),
    ("user", "rankd.v1.gateway.alice.bob.job.list", False),
    ("admin", "rankd.v1.gateway.head.carol.job.list", False),
    ("admin", "rankd.v1.gateway.head.bob.job.list", False),
    ("node", "rankd.v1.gateway.head.bob.job.list", False),
    ("node", "rankd.v1.gateway.n2.bob.job.list", False),
    ("admin", "rankd.v1.user.carol.job.list", True),
    ("admin", "rankd.v1.admin.carol.job.list", True),
    ("admin", "rankd.v1.internal.health.intake", True),
    ("admin", "rankd.v1.admin.root.job.list", False),
    ("admin", "rankd.v1.user.alice.job.list", False),
    ("admin", "rankd.v1.user.alice.as-admin.job.list", False),
    ("admin", "rankd.v1.node.here.take", False),
    ("admin", "$JS.API.STREAM.NAMES", False),
    ("admin", "$SYS.REQ.CLAIMS.UPDATE", False),
    ("node", "rankd.v1.node.n2.heartbeat", True),
    ("node", "rankd.v1.node.here.heartbeat", False),
    ("node", "rankd.v1.node.here.leave", False),
    ("node", "rankd.v1.node.here.take", False),
    ("user", "rankd.v1.enrol", False),
    ("user", "rankd.v1.user.alice.login.renew", True),
    ("user", "rankd.v1.user.bob.login.renew", False),
    ("admin", "rankd.v1.enrol", False),
    ("node", "rankd.v1.enrol", False),
    ("node", "rankd.v1.node.n2.renew", True),
    ("node", "rankd.v1.node.here.renew", False),
    ("node", "rankd.v1.user.alice.job.list", False),
    ("node", "rankd.v1.user.n2.job.list", False),
    ("node", "rankd.v1.admin.root.job.list", False),
    ("node", "$JS.API.STREAM.NAMES", False),
]


async def test_each_role_reaches_its_own_subjects_and_no_others(site, issue):
    files = {"user": issue("user", "alice"), "admin": issue("user", "carol", "--admin"), "node": issue("node", "n2")}
    async with AsyncExitStack() as stack:
        open_ = {role: await stack.enter_async_context(client_of(site, file)) for role, file in files.items()}
        for role, subject, is_answered in TABLE:
            answer = await asked(open_[role], subject)
            is_refused = answer in ("NoRespondersError", "TimeoutError") or _is_without_streams(answer)
            assert is_refused is not is_answered, (role, subject, answer)


def _is_without_streams(answer: dict | str) -> bool:
    """What the server answers for an account without JetStream."""
    return isinstance(answer, dict) and answer.get("error", {}).get("err_code") == 10039


async def test_no_reply_subject_makes_anybody_speak_for_the_sender(site, issue):
    """Each subject that a user or node can publish to, with each subject of another's as the reply."""
    alice, bob, node = issue("user", "alice"), issue("user", "bob"), issue("node", "n2")
    foreign = [
        "rankd.v1.event.job.bob", "rankd.v1.event.job.alice", "rankd.v1.event.ranking", "rankd.v1.enqueue.bob",
        "rankd.v1.deadletter.bob", "rankd.v1.node.here.allocation", "rankd.v1.node.here.report",
        "rankd.v1.internal.committed", "rankd.v1.gateway.head.bob.job.cancel",
        "rankd.v1.user.bob.job.cancel", "rankd.v1.admin.root.config.reload",
        "$JS.API.STREAM.PURGE.RANKD_EVENTS", "$JS.API.STREAM.DELETE.RANKD_EVENTS", "_INBOX.bob.x", "_R_.x.y",
    ]  # fmt: skip
    verbs = ["job.list", "job.submit", "job.cancel", "class.create", "config.reload", "no.such.verb"]
    publishable = [f"rankd.v1.user.alice.{verb}" for verb in verbs]
    reports = [f"rankd.v1.node.n2.{kind}" for kind in ("register", "heartbeat", "leave", "take", "report")]
    async with (
        client_of(site, alice) as of_alice,
        client_of(site, bob) as of_bob,
        client_of(site, node) as of_node,
        client_of(site, site.services) as services,
    ):
        streams = services.jetstream()
        before = [(await streams.stream_info(name)).state.last_seq for name in STREAMS]
        at_bob = await heard(of_bob)
        at_services = await heard(services, "rankd.v1.>")
        for connection, subjects in ((of_alice, publishable), (of_node, reports)):
            for subject in subjects:
                for reply in foreign:
                    await connection.publish(subject, b"{}", reply=reply)
            await connection.flush()
        assert await asked(of_alice, "rankd.v1.user.alice.job.list") != "TimeoutError"  # all before it is answered
        await asyncio.sleep(QUIET_S)
        assert [message.subject for message in at_bob if ".event.node." not in message.subject] == []
        forged = [m for m in at_services if m.reply in foreign or (m.subject in foreign[:8] and "alice" in str(m.data))]
        assert not forged, [(message.subject, message.reply) for message in forged]
        added = [(await streams.stream_info(name)).state.last_seq for name in STREAMS]
        stored = [
            (await streams.get_msg(name, number)).subject
            for name, first, last in zip(STREAMS, before, added, strict=True)
            for number in range(first + 1, last + 1)
        ]
        assert not [subject for subject in stored if "alice" in subject or "bob" in subject or "enqueue" in subject]
    assert "Submitted" in site.rankd("submit", "--", "true")  # everything is still there


STREAMS = ("RANKD_EVENTS", "RANKD_SUBMISSIONS", "RANKD_DEAD_LETTERS")


async def test_events_reach_their_owner_only(site, issue):
    alice, bob = issue("user", "alice"), issue("user", "bob")
    async with client_of(site, alice) as of_alice, client_of(site, bob) as of_bob:
        at_alice, at_bob = await heard(of_alice), await heard(of_bob)
        answer = await asked(of_alice, "rankd.v1.user.alice.job.submit", JOB)
        assert "id" in answer, answer
        async with asyncio.timeout(PATIENCE_S):
            while not [message for message in at_alice if message.subject == "rankd.v1.event.job.alice"]:
                await asyncio.sleep(0.05)
        await of_bob.flush()
        await asyncio.sleep(QUIET_S)
        assert not [message.subject for message in at_bob if ".job." in message.subject]


async def test_a_user_publishing_as_an_event_reaches_nobody(site, issue):
    alice, bob = issue("user", "alice"), issue("user", "bob")
    async with client_of(site, alice) as of_alice, client_of(site, bob) as of_bob:
        at_bob = await heard(of_bob)
        for subject in ("rankd.v1.event.job.bob", "rankd.v1.event.ranking", "rankd.v1.event.node.here", "_INBOX.bob"):
            await of_alice.publish(subject, b'{"events":[]}')
        await of_alice.flush()
        await asyncio.sleep(QUIET_S)
        assert not [message for message in at_bob if message.data == b'{"events":[]}']


async def test_revocation_ends_open_connections_and_gives_nothing_back(machine, creds):
    file = creds("user", "alice")
    async with client_of(machine, file) as connection:
        assert "id" in await asked(connection, "rankd.v1.user.alice.job.submit", JOB)
        machine.rankd("auth", "revoke", "--user", "alice")
        async with asyncio.timeout(5):  # as is promised
            while connection.is_connected:
                await asyncio.sleep(0.02)
    is_refused(machine, file)
    killed = machine.up["pids"]["nats"]
    machine.kill("nats")  # what was revoked stays revoked
    while machine.up["pids"]["nats"] == killed:
        await asyncio.sleep(0.1)
    is_refused(machine, file)
    async with client_of(machine, creds("user", "alice")) as connection:
        assert "id" in await asked(connection, "rankd.v1.user.alice.job.submit", JOB)


def test_watching_ends_with_a_message_when_the_access_is_revoked(site, issue):
    place = ["--nats", site.up["nats"], "--creds", str(issue("user", "wanda"))]
    site.rankd("submit", "--user", "wanda", "--hold", "--", "true")
    command = [*RANKD, "watch", "--since", "now-1hour", *place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert "submit" in watching.stdout.readline()
        site.rankd("auth", "revoke", "--user", "wanda")
        said = watching.communicate(timeout=PATIENCE_S)[1]
    assert watching.returncode != 0
    assert "does not accept the credentials of 'wanda'" in said


def test_an_ordinary_user_who_asks_for_health_is_told_who_may(site, issue):
    place = ["--nats", site.up["nats"], "--creds", str(issue("user", "alice"))]
    said = site.rankd_fails("health", "intake", *place, status=3)
    assert "intake does not answer users; ask with an administrator's credentials, or `rankd diag`" in said


def test_an_ordinary_users_credentials_do_not_act_for_others(site, issue, tmp_path):
    file = issue("user", "alice")
    elsewhere = tmp_path / "home"
    elsewhere.mkdir()
    own = elsewhere / "alice.creds"
    file.rename(own)
    place = ["--nats", site.up["nats"], "--creds", str(own)]
    assert "Submitted" in site.rankd("submit", *place, "--", "true")
    assert "are those of 'alice'" in site.rankd_fails("submit", *place, "--as", "bob", "--", "true")
    assert "not an administrator" in site.rankd_fails("submit", *place, "--admin", "--", "true")
    assert "submit without --enqueue" in site.rankd_fails("submit", *place, "--enqueue", "--", "true")
    assert "alice" in site.rankd("list", *place)


def test_no_auth_is_for_loopback_only(machine):
    said = machine.rankd_fails("up", "--no-auth", "--listen", "0.0.0.0", status=2)
    assert "--no-auth is for trials on loopback" in said
    machine.start("--no-auth", "--no-local-agent")
    assert machine.up["creds"] is None
    assert "Submitted" in machine.rankd("submit", "--nats", machine.up["nats"], "--as", "anybody", "--", "true")


async def test_what_waits_in_streams_survives_a_change_of_authentication(machine):
    """A directory of the version before had no authentication; a trial without it may come later."""
    machine.start("--no-auth", "--no-local-agent")
    machine.rankd("submit", "--", "true")
    before = await _stored(machine)
    assert before > 0
    for options in ([], ["--no-auth"], []):
        machine.stop()
        machine.start(*options, "--no-local-agent")
        assert await _stored(machine) >= before
        assert "true" in machine.rankd("list")


async def _stored(machine) -> int:
    """How many events the stream has."""
    async with client_of(machine, machine.services) as connection:
        return (await connection.jetstream().stream_info("RANKD_EVENTS")).state.messages


def test_a_revocation_that_the_broker_did_not_hear_of_holds_from_its_next_start(machine, creds):
    file = creds("user", "alice")
    machine.stop()
    assert "is revoked" in machine.rankd("auth", "revoke", "--user", "alice")
    machine.start("--no-local-agent")
    is_refused(machine, file)


def test_credentials_that_can_not_be_written_are_an_error_of_one_line(site):
    said = site.rankd_fails("auth", "creds", "--user", "alice", "--out", "none/alice.creds")
    assert "none/alice.creds can't be used: No such file or directory" in said


def agent_fails(machine, tmp_path, creds: Path, *more: str) -> str:
    """What an agent says that ends at once."""
    command = [
        *RANKD,
        "agent",
        "--nats",
        machine.up["nats"],
        "--creds",
        str(creds),
        "--state",
        str(tmp_path / "s"),
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_an_agent_with_anothers_credentials_ends_and_says_whose_they_are(site, issue, tmp_path):
    n4 = issue("node", "n4")
    said = agent_fails(site, tmp_path, n4, "--name", "n3")
    assert "those of node 'n4', and this agent represents node 'n3'" in said
    assert "--name n4" in said
    assert "those of user 'alice'" in agent_fails(site, tmp_path, issue("user", "alice"), "--name", "n3")
    site.rankd("auth", "revoke", "--node", "n4")
    assert "does not accept the credentials of 'n4'" in agent_fails(site, tmp_path, n4, "--name", "n4")


def test_an_agent_whose_credentials_others_can_read_ends_and_says_so(site, issue, tmp_path):
    n2 = issue("node", "n2")
    n2.chmod(0o644)
    assert f"chmod 600 {n2}" in agent_fails(site, tmp_path, n2, "--name", "n2")
