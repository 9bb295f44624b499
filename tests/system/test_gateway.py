"""Users of one machine, each as the user that the kernel says: needs root, to be two other users."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from system.client import connected
from system.conftest import Machine
from watch import comes

from rankd.bus.login import log_in_again, short_path
from rankd.core.errors import Unavailable
from rankd.wire.subject import enqueue_subject

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

ONE, TWO = 1, 2
"""Users that every Debian has: daemon and bin."""


@contextmanager
def sharing():
    """A ``rankd up --share`` in a directory that others may pass to; pytest closes its own to them."""
    with tempfile.TemporaryDirectory(prefix="rankd-shared-") as base:
        Path(base).chmod(0o755)
        if closed := [str(path) for path in Path(base).parents if not path.stat().st_mode & 0o001]:
            pytest.skip(f"other users can't pass through {closed}")
        machine = Machine(Path(base) / "state")
        machine.start("--name", "here", rights=())
        yield machine
        machine.end()


@pytest.fixture
def shared():
    """One for a test of its own."""
    with sharing() as machine:
        yield machine


@pytest.fixture(scope="module")
def common():
    """One for the tests that only log in."""
    with sharing() as machine:
        yield machine


def python_for_others() -> str | None:
    """An interpreter of this version with which other users can start rankd; None if this installation is closed."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for path in (str(Path(sys.executable).resolve()), f"/usr/bin/python{version}"):
        with suppress(OSError):
            tried = subprocess.run([path, "-c", "import rankd.cli.main, uvloop"], check=False, **of_user(ONE))
            if tried.returncode == 0:
                return path
    return None


def of_user(uid: int) -> dict[str, Any]:
    """A process of this user: no variables, no directory of its own."""
    paths = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # with nats-server
    environment = {"PATH": programs, "PYTHONPATH": os.pathsep.join(paths)}
    return {"user": uid, "group": uid, "extra_groups": [], "cwd": "/", "env": environment, "capture_output": True}


def as_user(uid: int, machine: Machine, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A command of this user. ``options``: those of the interpreter."""
    if (python := python_for_others()) is None:
        pytest.skip("other users can't read this installation of rankd, or have no Python of this version")
    command = [python, *options, "-m", "rankd", *words[0].split(), "--dir", str(machine.directory), *words[1:]]
    return subprocess.run(command, text=True, check=False, **of_user(uid))


def log_in(uid: int, machine: Machine, line: bytes = b"{}\n") -> dict:
    """What the gateway answers to a process of this user."""
    with connected_as(uid, machine) as connection:
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return json.loads(answer.read())


def connected_as(uid: int, machine: Machine) -> socket.socket:
    """A connection that a process of this user has made: the kernel notes who connects, not who writes."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(machine.directory / "login.sock"))
            socket.send_fds(there, [b"x"], [connection.fileno()])
        finally:
            os._exit(0)
    with here, there:
        os.waitpid(child, 0)
        here.settimeout(10)
        _, [handle], _, _ = socket.recv_fds(here, 1, 1)
        return socket.socket(fileno=handle)


def test_each_user_is_who_the_kernel_says(common):
    for uid, name in ((ONE, "daemon"), (TWO, "bin")):
        answer = log_in(uid, common)
        assert answer["user"] == name
        assert f"user '{name}'" in answer["creds"]
        assert time.time() + 3600 < answer["expires_at"] < time.time() + 86_400


def number_of(submitted: subprocess.CompletedProcess[str]) -> int:
    """The job that the command says it has submitted."""
    assert "Submitted batch job " in submitted.stdout, submitted.stderr
    return int(submitted.stdout.split()[3])


def test_a_job_of_another_user_runs_with_that_users_rights(common):
    id_ = number_of(as_user(ONE, common, "submit", "--wait", "--", "id", "-u"))
    [job] = common.rows("SELECT user, state, stdout FROM job WHERE id = ?", id_)
    assert (job["user"], job["state"]) == ("daemon", "completed")
    output = Path(job["stdout"])
    assert output.read_text() == "1\n"
    assert (output.stat().st_uid, output.parent.stat().st_uid) == (ONE, ONE)
    assert stat.S_IMODE(output.parent.stat().st_mode) == 0o700


LOOK = """
env; cat /proc/self/environ
pid=$$
while [ "$pid" -gt 1 ]; do
  cat /proc/$pid/environ; ls -l /proc/$pid/fd; cat /proc/$pid/cmdline; head -c 100 /proc/$pid/mem
  pid=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$pid/status)
done
cat {0}/auth/* {0}/up.json {0}/agent/lock {0}/agent/keeper.log {0}/log/*
ls {0} {0}/auth {0}/agent {0}/output
"""
"""What a job can look at: its environment, its parents, and the files of rankd."""


def test_a_job_of_another_user_reaches_no_credential(common):
    auth = common.directory / "auth"
    secrets = [(auth / "site.key").read_text().strip()]
    secrets += [file.read_text().split("SEED-----\n")[1].split("\n")[0] for file in auth.glob("*.creds")]
    assert len(secrets) == 7
    script = LOOK.replace("{0}", str(common.directory))
    id_ = number_of(as_user(ONE, common, "submit", "--wait", "--", "sh", "-c", script))
    [job] = common.rows("SELECT stdout, stderr FROM job WHERE id = ?", id_)
    seen = Path(job["stdout"]).read_bytes() + Path(job["stderr"]).read_bytes()
    assert [secret for secret in secrets if secret.encode() in seen] == []
    assert f"RANKD_JOB_ID={id_}\n".encode() in seen
    assert seen.count(b"Permission denied") >= 10
    keeper = [pid for pid in pids() if f"{common.directory}/agent".encode() in command_of(pid)]
    assert keeper
    assert [pid for pid in keeper if b"RANKD_" in Path(f"/proc/{pid}/environ").read_bytes() and is_keeper(pid)] == []


def pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_keeper(pid: int) -> bool:
    return b"rankd.services.keeper.service" in command_of(pid)


def test_roots_own_job_runs_as_root(common):
    """The first try of somebody who is root, as in a container."""
    out = common.directory.parent / "id"
    assert "Submitted" in as_user(0, common, "submit", "--wait", "-o", str(out), "--", "id", "-u").stdout
    assert out.read_text() == "0\n"
    id_ = number_of(as_user(0, common, "submit", "--wait", "--", "true"))
    [job] = common.rows("SELECT stdout FROM job WHERE id = ?", id_)
    assert stat.S_IMODE(Path(job["stdout"]).parent.stat().st_mode) == 0o700


async def enqueue(machine: Machine, user: str) -> None:
    """As a program that does not ask first."""
    async with connected(machine.up["nats"], machine.services) as client:
        await client.connection.jetstream().publish(enqueue_subject(user), b'{"command":["true"]}')


def test_only_root_at_the_socket_gets_a_job_with_roots_rights(shared):
    """Not an administrator, not the credentials of root, and no message of root's that waits in a stream."""
    nats = ["--nats", shared.up["nats"]]
    creds = shared.directory.parent / "root.creds"
    shared.rankd("auth", "creds", "--user", "root", "--out", str(creds))
    ways = [["--admin"], ["--admin", "--user", "root"], [*nats, "--creds", str(creds)], [*nats, "--admin"]]
    for words in ways:
        said = shared.rankd_fails("submit", *words, "--", "true")
        assert "jobs of 'root' run only if root submits them on the machine of `rankd up`" in said, words
    said = shared.rankd_fails("submit", *nats, "--enqueue", "--", "true")
    assert said.endswith("; leave out --enqueue, too\n"), "it asks first"
    asyncio.run(enqueue(shared, "root"))
    assert comes(lambda: shared.rows("SELECT code FROM dead_letter")) == [{"code": "root_refused"}]
    assert "Submitted" in shared.rankd("submit", "--as", "daemon", "--", "true")
    assert shared.rows("SELECT user FROM job") == [{"user": "daemon"}]


@pytest.fixture
def daemons():
    """A ``rankd up --share`` of an ordinary user, with a node."""
    if (python := python_for_others()) is None:
        pytest.skip("other users can't read this installation of rankd, or have no Python of this version")
    with tempfile.TemporaryDirectory(prefix="rankd-own-") as base:
        os.chown(base, ONE, ONE)
        Path(base).chmod(0o755)
        machine = Machine(Path(base) / "state")
        command = [python, "-m", "rankd", "up", "--dir", str(machine.directory), "--name", "here", "--share"]
        given = {name: value for name, value in of_user(ONE).items() if name != "capture_output"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **given)
        with process:
            said = ""
            while "rankd is up" not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            yield machine
            process.send_signal(signal.SIGINT)
            process.communicate()


def test_an_ordinary_users_rankd_runs_that_users_jobs_and_no_others(daemons):
    assert "Submitted" in as_user(ONE, daemons, "submit", "--wait", "--", "true").stdout
    for uid, words in ((TWO, ["submit"]), (ONE, ["submit", "--user", "bin"])):
        done = as_user(uid, daemons, *words, "--", "true")
        assert done.returncode == 1, done.stdout
        assert "do not run here: 'daemon', who is not root, has started this rankd" in done.stderr
    assert "daemon" in as_user(TWO, daemons, "queue --all").stdout + as_user(TWO, daemons, "acct").stdout
    assert daemons.rows("SELECT user, state FROM job") == [{"user": "daemon", "state": "completed"}]


def test_nobody_acts_for_another_or_reads_what_is_the_services(common):
    id_ = number_of(as_user(ONE, common, "submit", "--", "sleep", "600"))
    refused = [
        (["submit", "--as", "root", "--", "true"], "you are 'bin' here, not 'root'"),
        (["submit", "--as", "daemon", "--", "true"], "you are 'bin' here, not 'daemon'"),
        (["submit", "--admin", "--", "true"], "'bin' is not an administrator here"),
        (["cancel", str(id_)], "belongs to 'daemon'"),
    ]
    for words, text in refused:
        done = as_user(TWO, common, *words)
        assert done.returncode != 0
        assert text in done.stderr, (words, done.stderr)
    for name in ("rankd.db", "up.json", "auth/site.key", "auth/services.creds", "log/intake.log", "nats/server.conf"):
        done = subprocess.run(
            ["cat", str(common.directory / name)], capture_output=True, check=False, user=TWO, group=TWO
        )
        assert b"Permission denied" in done.stderr, name
    as_user(ONE, common, "cancel", str(id_))


@pytest.mark.parametrize("rights", [("--no-share",), ("--run-as", "agent")])
def test_without_share_the_socket_is_the_owners_only(machine, rights):
    machine.start("--no-local-agent", rights=rights)
    sock = machine.directory / "login.sock"
    assert stat.S_IMODE(sock.lstat().st_mode) == 0o600
    assert not stat.S_IMODE(machine.directory.stat().st_mode) & 0o066
    login = log_in_again(sock)
    assert login.user == "root"
    assert login.nats == machine.up["nats"]


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{", b'{"want":"root"}\n', b'{"user":"root"}\n', b"x" * 100_000, b"\xff\n", b"[" * 5_000 + b"\n"],
    ids=["nothing", "empty", "half", "another", "unknown", "long", "bytes", "deep"],
)
def test_a_request_that_is_none_is_refused(common, line):
    answer = log_in(ONE, common, line)
    assert "creds" not in answer
    assert answer["code"] in ("bad_request", "too_large", "unknown_field", "bad_field")
    assert log_in(ONE, common)["user"] == "daemon"


def test_who_keeps_connections_open_keeps_nobody_else_out(common):
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connected_as(ONE, common))
        assert log_in(TWO, common)["user"] == "bin"


def test_who_floods_the_socket_neither_keeps_others_out_nor_fills_the_log(shared):
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(ONE, ONE, ONE)
            until = time.monotonic() + 3
            while time.monotonic() < until:
                with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                    connection.setblocking(False)
                    connection.connect(str(shared.directory / "login.sock"))
        finally:
            os._exit(0)
    try:
        for _ in range(5):
            assert log_in_again(shared.directory / "login.sock").user == "root"
    finally:
        os.waitpid(child, 0)
    log = (shared.directory / "log" / "gateway.log").read_text()
    assert log.count("user 1, process") <= 2


def test_only_the_owner_gives_credentials(shared):
    out = str(shared.directory.parent / "root.creds")
    done = as_user(TWO, shared, "auth creds", "--user", "root", "--out", out)
    assert done.returncode == 1
    assert "only the user who started this rankd can give credentials" in done.stderr
    shared.stop()
    assert "is for its owner only" in as_user(TWO, shared, "queue").stderr


def test_a_revoked_user_gets_nothing_at_the_socket(shared):
    assert log_in(ONE, shared)["user"] == "daemon"
    shared.rankd("auth", "revoke", "--user", "daemon")
    assert log_in(ONE, shared)["code"] == "revoked"
    assert log_in(TWO, shared)["user"] == "bin"
    shared.rankd("auth", "creds", "--user", "daemon", "--out", str(shared.directory.parent / "daemon.creds"))
    assert log_in(ONE, shared)["user"] == "daemon"


def test_nobody_there_is_said_in_one_line(tmp_path):
    with pytest.raises(Unavailable, match="nobody answers at"):
        log_in_again(tmp_path / "login.sock")
    listening = socket.socket(socket.AF_UNIX)
    with listening:
        listening.bind(str(tmp_path / "login.sock"))
        with pytest.raises(Unavailable, match="nobody answers at"):
            log_in_again(tmp_path / "login.sock")


@pytest.mark.parametrize("answer", [b"", b"{}\n", b"hello\n", b'{"creds": 1}\n', b"[]\n", b"[" * 20_000 + b"\n"])
def test_another_program_at_the_socket_is_said_in_one_line(tmp_path, answer):
    with socket.socket(socket.AF_UNIX) as listening:
        with short_path(tmp_path / "login.sock") as path:
            listening.bind(path)
        listening.listen()

        def reply():
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(Unavailable, match="is not rankd's gateway"):
            log_in_again(tmp_path / "login.sock")
        thread.join()


def test_root_shares_with_others_but_not_its_rights(machine):
    said = machine.rankd_fails("up", "--share", "--run-as", "agent", status=2)
    assert "other users' jobs would run as root" in said
    machine.start("--no-local-agent", rights=())
    assert stat.S_IMODE((machine.directory / "login.sock").lstat().st_mode) == 0o666
