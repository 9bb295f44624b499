"""Commands while the broker is away, hangs, or dies: a line and an exit status in time, never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from watch import PATIENCE_S

COMMANDS = [
    ["submit", "--retry-for", "1", "--", "true"],
    ["submit", "--retry-for", "1", "--count", "3", "--", "true"],
    ["submit", "--retry-for", "1", "--enqueue", "--", "true"],
    ["submit", "--retry-for", "1", "--wait", "--", "true"],
    ["cancel", "1"],
    ["hold", "--me"],
    ["release", "1"],
    ["update", "1", "--urgency", "3"],
    ["deadletter", "list"],
    ["deadletter", "show", "1"],
    ["deadletter", "retry", "1"],
    ["deadletter", "drop", "1"],
    ["queue"],
    ["prio"],
    ["prio", "-w"],
    ["why", "1"],
    ["why", "1", "--gap"],
    ["show", "1"],
    ["history", "1"],
    ["list"],
    ["watch"],
    ["acct"],
    ["nodes"],
    ["share"],
    ["queues"],
    ["class", "list"],
    ["class", "show", "x"],
    ["class", "create", "x", "--value", "1"],
    ["class", "update", "x", "--global-default"],
    ["class", "delete", "x"],
    ["whatif", "--weights", "age=1"],
    ["dump"],
    ["config", "history"],
    ["config", "history", "--diff", "1"],
    ["node", "drain", "n1"],
    ["node", "resume", "n1"],
    ["reload"],
    ["reload", "--dry-run"],
    ["diag"],
    ["diag", "--reset"],
    ["health", "intake"],
    ["db", "sql", "SELECT 1"],
    ["db", "check"],
]

ON_THE_FILE = [words for words in COMMANDS if words[0] == "db"]
"""They say that a broker is not enough."""

INFO = (
    b'INFO {"server_id":"X","server_name":"x","version":"2.12.0","proto":1,"headers":true,"max_payload":1048576,'
    b'"jetstream":true,"host":"127.0.0.1","port":4222}\r\n'
)


class Server:
    """Takes connections, and does with each what ``serve`` does."""

    def __init__(self, serve) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._serve = serve
        self._held: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._socket.getsockname()[1]}"

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._held.append(connection)
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except OSError:
            connection.close()

    def close(self) -> None:
        self._socket.close()
        for connection in self._held:
            connection.close()


def silent(connection: socket.socket) -> None:
    """As a broker that was stopped before it said anything: the kernel takes connections for it."""
    while connection.recv(65536):
        pass


def deaf(connection: socket.socket) -> None:
    """Greets and answers the first ping, then nothing: as one that was stopped behind an open connection."""
    connection.sendall(INFO)
    seen = b""
    while b"PING\r\n" not in seen:
        if not (came := connection.recv(65536)):
            return
        seen += came
    connection.sendall(b"PONG\r\n")
    silent(connection)


def dying(connection: socket.socket) -> None:
    """Greets, answers the first ping, and dies at the first question."""
    connection.sendall(INFO)
    seen = b""
    while b"PING\r\n" not in seen:
        seen += connection.recv(65536) or b"PING\r\n"
    connection.sendall(b"PONG\r\n")
    connection.recv(65536)
    connection.close()


FORKING = """
import json, os, sys
import uvloop, nats
import rankd.bus.connection, rankd.cli.look.event_follower, rankd.wire.message
from rankd.cli.main import main

ended = []
children = []
for place, words in enumerate(json.loads(sys.stdin.read())):
    pid = os.fork()
    if not pid:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}-{place}", os.O_WRONLY | os.O_CREAT), number)
        sys.argv[1:] = words
        sys.exit(main())
    children.append(pid)
for place, pid in enumerate(children):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ended.append((status, open(f"out-{place}").read(), open(f"err-{place}").read()))
print(json.dumps(ended))
"""
"""Runs all commands at once, each in a process of its own that has inherited what is slow to import."""


def run(url: str, directory: Path) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    done = subprocess.run(
        [sys.executable, "-c", FORKING], input=json.dumps(COMMANDS), capture_output=True, check=True, text=True,
        timeout=PATIENCE_S, cwd=directory, env=environment | {"RANKD_NATS": url},
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("url", ["nats://", "nats://host:99999", "http://x", "nats://[::1", "nats://a b"])
def test_every_command_refuses_what_is_not_the_url_of_a_broker(tmp_path, url):
    wrong = [
        (words, status, out, err)
        for words, (status, out, err) in zip(COMMANDS, run(url, tmp_path), strict=True)
        if status != 2
        or out
        or len(err.splitlines()) != 1
        or ("is not the URL of a broker" not in err and words not in ON_THE_FILE)
    ]
    assert not wrong


@pytest.mark.parametrize("kind", ["away", "silent", "deaf", "dying"])
def test_every_command_ends_with_a_line_and_a_status(tmp_path, kind):
    server = Server({"away": silent, "silent": silent, "deaf": deaf, "dying": dying}[kind])
    url = server.url
    if kind == "away":
        server.close()
    try:
        ended = run(url, tmp_path)
    finally:
        server.close()
    wrong = [
        (words, status, out, err)
        for words, (status, out, err) in zip(COMMANDS, ended, strict=True)
        if status != (2 if words in ON_THE_FILE else 3)
        or out
        or not err.startswith("rankd: ")
        or len(err.splitlines()) != 1
    ]
    assert not wrong
