"""Invitations where connections are encrypted: the token holds the CA, and no other broker is believed."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager

import pytest
from system.conftest import Machine
from system.home import Home
from system.test_enrolment import elsewhere  # noqa: F401 - a fixture

from rankd.identity.invitation import read_invitation


def is_open(machine: Machine, user: str) -> bool:
    """Whether an invitation of this user can still be used."""
    listed = json.loads(machine.rankd("auth", "user", "list", "--json"))
    return any(one["name"] == user and one["invited_until"] for one in listed)


@contextmanager
def another(directory, *options):
    """Somebody else's rankd."""
    machine = Machine(directory)
    machine.start("--no-local-agent", *options)
    try:
        yield machine
    finally:
        machine.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a second host")
def test_a_user_of_another_host_logs_in_encrypted_and_believes_no_other_broker(machine, elsewhere, tmp_path):  # noqa: F811
    address, there = elsewhere
    machine.start("--no-local-agent", "--listen", address)
    ca = (machine.directory / "auth" / "ca.pem").read_text()
    assert machine.up["nats"].startswith(f"tls://{address}:")
    alice = Home(tmp_path / "alice", *there)
    with another(tmp_path / "other", "--listen", address) as other:
        token = machine.rankd("auth", "invite", "alice", "--url", other.up["nats"])
        said = alice.run("login", token=token, status=1)
        assert "another CA has signed its certificate. Nothing was sent to it; ask for a new one" in said
    with another(tmp_path / "plain", "--listen", address, "--no-tls") as plain:
        token = machine.rankd("auth", "invite", "alice", "--url", plain.up["nats"])
        said = alice.run("login", token=token, status=1)
        assert "does not encrypt, and the site of this invitation did. Nothing was sent to it" in said
    assert is_open(machine, "alice")
    token = machine.rankd("auth", "invite", "alice")
    assert read_invitation(token).ca == ca
    assert f"you are user 'alice' at tls://{address}:" in alice.run("login", token=token)
    assert ca in (alice.files / "login.creds").read_text()
    assert "Submitted batch job 1" in alice.run("submit", "--", "true")
    assert "you are user 'alice'" in alice.run("login", "--renew")
    assert "Submitted batch job 2" in alice.run("submit", "--", "true")


def test_a_token_of_before_the_first_encrypted_start_is_refused_with_what_to_do(machine, tmp_path):
    alice = Home(tmp_path / "alice")
    machine.rankd("auth", "init", "--dir", str(machine.directory))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for scheme in ("nats", "tls"):
        early = machine.rankd_all("auth", "invite", "alice", "--url", f"{scheme}://127.0.0.1:{port}")
        assert "the token holds no CA" in early.stderr
    machine.start("--no-local-agent", "--tls", "--port", port)
    said = alice.run("login", token=early.stdout, status=1)
    assert "the invitation was made before the site encrypted; ask for a new one" in said
    assert "you are user 'alice'" in alice.run("login", token=machine.rankd("auth", "invite", "alice"))
