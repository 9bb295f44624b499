"""Requests over the login socket: who asks is whom the kernel says, and no command needs a NATS client for it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from system.client import connected
from system.conftest import RANKD
from system.test_gateway import ONE, TWO, as_user, connected_as, log_in, shared  # noqa: F401 - a fixture
from watch import PATIENCE_S

from rankd.bus.login import ask_at
from rankd.bus.request_turns import MAX_REQUESTS_PER_ASKER
from rankd.core.errors import Refused, Unavailable
from rankd.services.runtime.socket_room import AT_ONCE_PER_USER, MOST_BYTES_PER_USER
from rankd.wire.login import MOST_REQUEST_BYTES

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
JOB = b'{"command":["true"],"resources":{"vcore":1000}}'
"""It waits for ever."""
SLOW = {"nats", "asyncio", "uvloop", "sqlalchemy", "numpy"}
SLOW_FOR_ONE_JOB = SLOW | {
    "msgspec", "inspect", "typing_extensions", "dataclasses", "uuid", "platform", "decimal", "datetime",
    "shtab", "shutil", "tomllib", "logging", "subprocess", "importlib.metadata", "sqlite3", "pysqlite3",
    "rankd.core.model.job", "rankd.wire.message", "rankd.wire.codec", "rankd.wire.login", "rankd.store",
    "rankd.identity.credentials", "rankd.client.instant", "rankd.cli.common.table",
}  # fmt: skip
"""People submit in loops, so the submission of one job imports none of these."""
SCRIPT = "#!/bin/sh\n#SBATCH -J name -n 2 --mem-per-cpu=100M\n#RANKD -t 10\ntrue\n"


def own(machine, *words: str, status: int = 0, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A command of the owner, who names only the directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    command = [sys.executable, *python, "-m", "rankd"] if python else RANKD
    named = ["--dir", str(machine.directory)]
    words = (*words[:2], *named, *words[2:]) if words[0] == "node" else (words[0], *named, *words[1:])
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, env=environment, cwd=machine.directory.parent
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def imports_of(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The modules that a process with ``-X importtime`` imported after those of the interpreter's own start."""
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(lines[lines.index("site") :])


def by_whom(machine, job: int) -> list[tuple[str, str, str | None]]:
    """The job's events: what happened, by whom, and the gateway that vouched."""
    rows = machine.rows("SELECT event, actor, detail FROM job_events WHERE job_id = ? ORDER BY id", job)
    return [(row["event"], row["actor"], json.loads(row["detail"] or "{}").get("via")) for row in rows]


def until(condition) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def together(shared_machine):
    """As :func:`alone`, one for several tests."""
    shared_machine.start("--no-local-agent")
    return shared_machine


@pytest.fixture
def alone(machine):
    """A ``rankd up`` without a node, so that all jobs wait."""
    machine.start("--no-local-agent")
    return machine


def test_the_owners_commands_ask_over_the_socket(alone):
    own(alone, "submit", "--", "true")
    me = alone.rows("SELECT actor FROM job_events")[0]["actor"]
    own(alone, "hold", "1")
    own(alone, "release", "1")
    own(alone, "update", "1", "--name", "other")
    own(alone, "cancel", "1")
    events = [("submit", me, "head"), ("hold", me, "head"), ("release", me, "head"), ("update", me, "head"),
              ("cancel", me, "head")]  # fmt: skip
    assert by_whom(alone, 1) == events
    assert f"{me} via head" in own(alone, "history", "1").stdout
    assert "Submitted 3 batch jobs 2-4" in own(alone, "submit", "--count", "3", "--", "true").stdout


def test_the_gateway_is_in_the_published_event_and_in_what_watch_shows(together):
    job = own(together, "submit", "--parsable", "--", "true").stdout.strip()
    environment = {**os.environ, "RANKD_DIR": str(together.directory)}
    watching = subprocess.Popen(
        [*RANKD, "watch", job, "--since", "now-1hour"], stdout=subprocess.PIPE, text=True, env=environment,
        cwd=together.directory.parent,
    )  # fmt: skip
    try:
        assert "submit by" in (line := watching.stdout.readline())
        assert " via head" in line
    finally:
        watching.terminate()
        watching.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "--", "true"),
        ("cancel", "JOB"),
        ("hold", "JOB"),
        ("update", "JOB", "--name", "x"),
        ("cancel", "--me"),
    ],
)
def test_a_command_that_asks_over_the_socket_imports_neither_nats_nor_an_event_loop(together, words):
    job = own(together, "submit", "--parsable", "--", "true").stdout.strip()
    named = [job if word == "JOB" else word for word in words]
    imported = imports_of(own(together, *named, python=("-X", "importtime")))
    assert "rankd.bus.login" in imported
    assert imported & SLOW == set()


@pytest.mark.parametrize("words", [("--", "true"), ("job.sh",), ("-a", "0-9", "-c", "1", "--mem", "1G", "--", "true")])
def test_the_submission_of_one_job_imports_nothing_slow(together, words):
    (together.directory.parent / "job.sh").write_text(SCRIPT)
    count = "SELECT count(*) AS n FROM jobs"
    before = together.rows(count)[0]["n"]
    imported = imports_of(own(together, "submit", *words, python=("-X", "importtime")))
    assert {"rankd.bus.login", "rankd.cli.jobs.delivery"} <= imported
    assert imported & SLOW_FOR_ONE_JOB == set()
    assert together.rows(count)[0]["n"] == before + 1


@needs_root
def test_the_submission_of_another_user_imports_nothing_slow_either(shared):  # noqa: F811
    imported = imports_of(as_user(ONE, shared, "submit", "--", "true", options=("-X", "importtime")))
    assert "rankd.bus.login" in imported
    assert imported & SLOW_FOR_ONE_JOB == set()


def test_who_names_the_broker_credentials_a_user_or_rights_asks_the_broker(together):
    creds = str(together.directory / "auth" / "admin.creds")
    own(together, "submit", "--creds", creds, "--", "true")
    own(together, "submit", "--as", "alice", "--", "true")
    own(together, "submit", "--admin", "--class", "high", "--", "true")
    together.rankd("submit", "--nats", together.up["nats"], "--", "true")
    newest = together.rows("SELECT max(id) AS id FROM jobs")[0]["id"]
    assert [by_whom(together, job)[0][2] for job in range(newest - 3, newest + 1)] == [None] * 4
    assert "--admin" in own(together, "node", "drain", "n1", status=1).stderr


def test_many_jobs_go_in_requests_that_the_socket_takes(together):
    job = {"command": ["true", "x" * 2_000], "resources": {"vcore": 1000}}
    file = together.directory.parent / "jobs.json"
    file.write_text(json.dumps([job | {"name": f"j{number}"} for number in range(4_000)]))
    assert file.stat().st_size > 1.5 * MOST_REQUEST_BYTES
    before = together.rows("SELECT count(*) AS n FROM jobs")[0]["n"]
    assert "Submitted 4000 batch jobs" in own(together, "submit", "--file", str(file)).stdout
    assert together.rows("SELECT count(*) AS n FROM jobs") == [{"n": before + 4_000}]


def test_a_gateway_that_is_killed_delays_a_submission_only(alone):
    alone.kill("gateway")
    assert "Submitted batch job 1" in own(alone, "submit", "--", "true").stdout


@needs_root
def test_other_users_ask_as_themselves(shared):  # noqa: F811
    assert "Submitted batch job 1" in as_user(ONE, shared, "submit", "--", "sleep", "600").stdout
    assert "Submitted batch job 2" in as_user(TWO, shared, "submit", "--hold", "--", "true").stdout
    assert by_whom(shared, 1)[0] == ("submit", "daemon", "head")
    assert by_whom(shared, 2)[0] == ("submit", "bin", "head")
    assert "belongs to 'bin'" in as_user(ONE, shared, "cancel", "2").stderr
    assert "bin" in as_user(ONE, shared, "queue").stdout
    assert as_user(TWO, shared, "cancel", "2").returncode == 0
    assert by_whom(shared, 2)[-1] == ("cancel", "bin", "head")
    until(lambda: by_whom(shared, 1)[-1][0] == "start")
    assert as_user(ONE, shared, "cancel", "1").returncode == 0
    until(lambda: by_whom(shared, 1)[-1] == ("cancel", "daemon", "head"))


@needs_root
def test_a_revoked_user_is_not_answered(shared):  # noqa: F811
    shared.rankd("auth", "revoke", "--user", "daemon")
    assert "revoked the access of 'daemon'" in as_user(ONE, shared, "submit", "--", "true").stderr
    assert "Submitted" in as_user(TWO, shared, "submit", "--", "true").stdout


def said(uid: int, machine, line: bytes, behind: bytes = b"") -> dict:
    """The first line of the answer to a process of this user."""
    with connected_as(uid, machine) as connection:
        with suppress(OSError):  # it was refused before all of it was read
            connection.sendall(line + b"\n" + behind)
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return json.loads(answer.readline())


def asking(**fields: object) -> bytes:
    return json.dumps({"want": "answer", "verb": "job.list", "size": 2} | fields).encode()


@needs_root
def test_a_request_that_is_hostile_is_refused_and_the_next_one_is_answered(shared):  # noqa: F811
    lines = [
        (asking(verb="job.>"), b"{}", "bad_request"),
        (asking(verb="as-admin.job.list"), b"{}", "bad_request"),
        (asking(verb="job.list.x"), b"{}", "bad_request"),
        (asking(size=-1), b"", "bad_request"),
        (asking(size=MOST_REQUEST_BYTES + 1), b"x" * 100_000, "too_large"),
        (asking(size=10**30), b"", "too_large"),
        (asking(size=100), b"{}", "bad_request"),
        (asking(user="root"), b"{}", "unknown_field"),
        (asking(admin=True), b"{}", "unknown_field"),
        (asking(key="a\nNats-Msg-Id: b"), b"{}", "bad_request"),
    ]
    for line, behind, code in lines:
        assert said(ONE, shared, line, behind).get("code") == code, line
    assert said(ONE, shared, asking(), b"{}")["size"] > 0
    assert said(ONE, shared, asking(verb="config.reload"), b"{}")["status"] == "403"
    assert said(ONE, shared, asking(verb="job.submit", size=1), b"[")["status"] == "400"
    assert said(ONE, shared, asking(verb="no.such"), b"{}")["code"] == "no_answer"


@needs_root
def test_who_sends_slowly_or_reads_nothing_keeps_nobody_else_out(shared):  # noqa: F811
    with ExitStack() as stack:
        for _ in range(2 * MOST_BYTES_PER_USER // MOST_REQUEST_BYTES):
            connection = stack.enter_context(connected_as(ONE, shared))
            connection.sendall(asking(size=MOST_REQUEST_BYTES) + b"\n" + b"x" * 50_000)
        assert said(TWO, shared, asking(), b"{}")["size"] > 0
        assert log_in(TWO, shared)["user"] == "bin"
        refused = said(ONE, shared, asking(), b"{}")
        assert (refused["code"], refused["status"]) == ("busy", 503)


def test_at_most_so_many_connections_of_one_user_are_answered_and_the_others_may_come_again(together):
    path, outcomes = together.directory / "login.sock", []
    before = together.rows("SELECT count(*) AS n FROM jobs")[0]["n"]

    def ask() -> None:
        try:
            outcomes.append(ask_at(path, "job.submit", JOB, timeout_s=60).status)
        except Unavailable as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(3 * AT_ONCE_PER_USER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {None, "busy"}
    n_jobs = together.rows("SELECT count(*) AS n FROM jobs")[0]["n"] - before
    assert n_jobs == outcomes.count(None) >= 1


def test_an_error_of_the_service_comes_as_over_the_bus(together):
    assert "unknown queue 'root.none'" in own(together, "submit", "-q", "root.none", "--", "true", status=1).stderr
    with pytest.raises(Refused, match="is not a verb"):
        ask_at(together.directory / "login.sock", "x", b"")


def test_the_same_key_gives_the_same_job(together):
    path = together.directory / "login.sock"
    one, other = (ask_at(path, "job.submit", JOB, key="k-1").payload for _ in range(2))
    assert json.loads(one) == json.loads(other)
    assert list(json.loads(one)) == ["id"]


@needs_root
def test_without_share_no_other_user_asks(together):
    assert (together.directory / "login.sock").stat().st_mode & 0o777 == 0o600
    assert not can_connect(together)


def can_connect(machine) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setresuid(ONE, ONE, ONE)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(machine.directory / "login.sock"))
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_refusal_of_a_gateway_that_did_not_read_the_request_is_understood(tmp_path):
    """Closing a connection with unread bytes resets it; the refusal has arrived before."""
    path = tmp_path / "login.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def refuse() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1, socket.MSG_PEEK)
                connection.sendall(b'{"code":"busy","message":"too many","field":null,"status":503}\n')

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(Unavailable) as refused:
            ask_at(path, "job.submit", JOB, timeout_s=PATIENCE_S)
        thread.join()
    assert refused.value.code == "busy"


def test_requests_over_a_gateway_and_over_nats_share_one_allowance_of_a_user(machine, tmp_path):
    config = tmp_path / "etc"
    config.mkdir()
    settings = '[admission]\nmax_requests_per_s = 1\nunknown_association = "default"\n[[qos]]\nname = "normal"\n'
    (config / "rankd.toml").write_text(f'default_qos = "normal"\n{settings}')
    machine.start("--no-local-agent", "--config", str(config))
    assert asyncio.run(_beside_a_flood(machine)) == ("429", "too_many_waiting")


async def _beside_a_flood(machine) -> tuple[str, str]:
    """The first refusal on a gateway's subject, while more requests of this user wait over NATS than may."""
    refused: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    async def note(message) -> None:
        if (status := (message.headers or {}).get("Nats-Service-Error-Code")) and not refused.done():
            refused.set_result((status, json.loads(message.data)["code"]))

    async with connected(machine.up["nats"], machine.services) as client:
        await client.connection.subscribe("_INBOX.refused.x", cb=note)
        for _ in range(MAX_REQUESTS_PER_ASKER + 200):
            await client.connection.publish("rankd.v1.user.alice.site.show", b"{}", reply="_INBOX.nobody.x")
        assert "code" not in await client.ask("rankd.v1.user.bob.site.show", {})
        for _ in range(500):
            await client.connection.publish("rankd.v1.gateway.head.alice.site.show", b"{}", reply="_INBOX.refused.x")
        assert "code" not in await client.ask("rankd.v1.gateway.head.bob.site.show", {})
        return await asyncio.wait_for(refused, PATIENCE_S)
