"""Encrypted connections from end to end: real processes, the certificates that rankd makes, and given ones."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import subprocess
from pathlib import Path

import nats
import pytest
from certificates import Authority
from system.conftest import RANKD, Machine
from watch import PATIENCE_S

from rankd.bus.login import log_in_again


def alone(machine: Machine, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command on another machine: no directory, no variables of this one, a home of its own."""
    home = machine.directory.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "RANKD_USER": "alice", **variables}
    return subprocess.run([*RANKD, *words], capture_output=True, text=True, check=False, cwd=home, env=environment)


def without_ca(file: Path) -> Path:
    """Credentials as an older version wrote them."""
    bare = file.with_suffix(".bare")
    bare.write_text(file.read_text().partition("-----BEGIN CERTIFICATE")[0])
    return bare


def test_commands_check_the_broker_with_what_credentials_options_or_files_hold(machine):
    machine.start("--tls", "--tls-name", "head.lab.example", "--no-local-agent")
    url, ca = machine.up["nats"], machine.up["ca"]
    assert url.startswith("tls://127.0.0.1:")
    assert "Submitted" in machine.rankd("submit", "--", "true")
    full = machine.credentials("user", "alice")
    bare = without_ca(full)
    place = ["submit", "--nats", url]
    good = [
        ([*place, "--creds", str(full)], {}),
        ([*place, "--creds", str(bare), "--ca", ca], {}),
        ([*place, "--creds", str(bare)], {"RANKD_CA": ca}),
        (["submit", "--nats", url.replace("tls", "nats"), "--creds", str(full)], {}),
    ]
    for words, variables in good:
        done = alone(machine, *words, "--", "true", **variables)
        assert done.returncode == 0, (words, done.stderr)
    own = machine.directory.parent / "home" / ".config" / "rankd" / "client.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'nats = "{url}"\ncreds = "{bare}"\nca = "{ca}"\n')
    assert alone(machine, "submit", "--", "true").returncode == 0
    own.unlink()
    for words, said in [
        ([*place, "--creds", str(bare)], "is signed by a CA that is not known here; give the CA's certificate"),
        (["submit", "--nats", url.replace("tls", "nats"), "--creds", str(bare)], "CA that is not known here"),
        ([*place, "--creds", str(full), "--ca", str(bare)], f"{bare} can't be used for encrypted connections"),
    ]:
        done = alone(machine, *words, "--", "true")
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


async def test_a_plain_client_with_the_cas_certificate_gets_in(machine):
    machine.start("--tls", "--no-local-agent")
    context = ssl.create_default_context(cafile=machine.up["ca"])
    alice = str(machine.credentials("user", "alice"))
    client = await nats.connect(machine.up["nats"], user_credentials=alice, tls=context)
    try:
        reply = await client.request("rankd.v1.user.alice.job.list", b"{}", timeout=PATIENCE_S)
        assert b'"jobs"' in reply.data
    finally:
        await client.close()


async def test_an_agent_stays_over_restarts_that_make_another_certificate(machine, tmp_path):
    options = ("--tls", "--name", "here", "--port", str(free_port()))
    machine.start(*options)
    url = machine.up["nats"]
    first = (machine.directory / "auth" / "broker.pem").read_text()
    creds = machine.credentials("node", "second")
    command = ["agent", "--nats", url, "--creds", str(creds), "--name", "second", "--state", str(tmp_path / "second")]
    agent = subprocess.Popen([*RANKD, *command, "--run-as", "agent", "--drain-on-stop"], stderr=subprocess.DEVNULL)
    try:
        await until_two_nodes_run_a_job(machine)
        machine.stop()
        machine.start(*options)
        assert (machine.directory / "auth" / "broker.pem").read_text() != first
        await until_two_nodes_run_a_job(machine)
    finally:
        agent.terminate()
        await asyncio.to_thread(agent.wait)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def until_two_nodes_run_a_job(machine):
    def submit() -> str:
        return machine.rankd("submit", "--wait", "-N", "2", "-c", "1", "--", "true")

    async with asyncio.timeout(PATIENCE_S):
        assert "Submitted" in await asyncio.to_thread(submit)


def test_keys_are_private_and_nowhere_else(machine):
    machine.start("--tls", "--name", "here")
    auth = machine.directory / "auth"
    assert {stat.S_IMODE((auth / name).stat().st_mode) for name in ("broker.key", "broker.pem", "ca.pem")} == {0o600}
    secret = (auth / "broker.key").read_text().splitlines()[1]
    texts = [(machine.directory / "up.json").read_text(), (machine.directory / "nats" / "server.conf").read_text()]
    texts += [path.read_text() for path in (machine.directory / "log").iterdir()]
    texts += [Path(f"/proc/{pid}/cmdline").read_text() for pid in machine.up["pids"].values()]
    texts += [Path(f"/proc/{pid}/environ").read_text() for pid in machine.up["pids"].values()]
    assert not [text for text in texts if secret in text or "PRIVATE KEY" in text]


def test_the_socket_gives_the_cas_certificate_too(machine):
    machine.start("--tls", "--no-local-agent")
    login = log_in_again(machine.directory / "login.sock")
    assert login.nats == machine.up["nats"]
    assert (machine.directory / "auth" / "ca.pem").read_text() in login.creds


def test_a_directory_that_listened_in_plain_text_says_what_to_do_when_it_encrypts(machine):
    options = ("--no-local-agent", "--port", str(free_port()))
    machine.start(*options)
    assert machine.up["ca"] is None
    url, old = machine.up["nats"], machine.credentials("user", "alice")
    machine.stop()
    machine.start(*options, "--tls")
    done = alone(machine, "submit", "--nats", url, "--creds", str(old), "--", "true")
    assert done.returncode == 1
    assert "CA that is not known here; give the CA's certificate with --ca FILE, or credentials" in done.stderr
    new = machine.credentials("user", "alice")
    assert alone(machine, "submit", "--nats", url, "--creds", str(new), "--", "true").returncode == 0
    machine.stop()
    machine.start(*options)
    done = alone(machine, "submit", "--nats", url, "--creds", str(new), "--", "true")
    assert done.returncode == 1
    assert "does not encrypt its connections, and the credentials are of a site that encrypts" in done.stderr
    assert not (machine.directory / "auth" / "ca.pem").exists()
    assert "Submitted" in machine.rankd("submit", "--", "true")


def test_a_certificate_of_the_administrators(machine, tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("broker", "localhost")
    files = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key), "--ca", str(authority.ca)]
    machine.start("--name", "here", *files)
    assert machine.up["nats"].startswith("tls://localhost:")
    assert "Submitted" in machine.rankd("submit", "--wait", "--", "true")
    alice = machine.credentials("user", "alice")
    done = alone(machine, "list", "--nats", machine.up["nats"], "--creds", str(alice))
    assert done.returncode == 0, done.stderr


def test_an_external_broker_with_mutual_tls(machine, tmp_path):
    """Every process connects with the files that ``rankd up`` was given, and commands find them in its directory."""
    authority = Authority(tmp_path)
    server, own = authority.issue("broker", "127.0.0.1"), authority.issue("client", "client")
    port = free_port()
    (tmp_path / "nats.conf").write_text(
        f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{tmp_path}/js" }}\n'
        f'tls {{ cert_file: "{server.certificate}", key_file: "{server.key}"\n'
        f'  ca_file: "{authority.ca}", verify: true }}\n'
    )
    binary = Path(RANKD[0]).with_name("nats-server")
    broker = subprocess.Popen([binary, "-c", tmp_path / "nats.conf"], stderr=subprocess.DEVNULL)
    files = ["--ca", str(authority.ca), "--tls-cert", str(own.certificate), "--tls-key", str(own.key)]
    try:
        machine.start("--nats", f"tls://127.0.0.1:{port}", "--name", "here", *files)
        assert "Submitted" in machine.rankd("submit", "--wait", "--", "true")
        done = alone(machine, "submit", "--nats", f"tls://127.0.0.1:{port}", "--ca", str(authority.ca), "--", "true")
        assert "wants a certificate of its clients" in done.stderr
        machine.stop()
    finally:
        broker.terminate()
        broker.wait()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-auth", "--tls"], "--no-auth is for trials on loopback, without encryption"),
        (["--no-tls", "--tls-cert", "x"], "--no-tls can't be used with a certificate"),
        (["--tls-key", "x"], "--tls-key needs --tls-cert"),
        (["--tls-name", "x", "--tls-cert", "y"], "the one in --tls-cert has its own names"),
        (["--nats", "nats://h:1", "--tls"], "--tls and --tls-name are for the embedded broker"),
        (["--tls-name", "a..b"], "'a..b' can't be in a certificate"),
        (["--ca", ""], "--ca is empty"),
    ],
)
def test_options_that_contradict_each_other_are_refused(machine, options, said):
    assert said in machine.rankd_fails("up", "--dir", str(machine.directory), *options, status=2)
