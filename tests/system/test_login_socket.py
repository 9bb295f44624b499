"""The login socket of a running site against a user who sends whatever he likes."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from system.conftest import Machine
from system.test_gateway import ONE, TWO, connected_as, log_in

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

INPUTS = 600
GROWTH_BYTES = 64 * 2**20
WORDS = [b'"want"', b'"answer"', b'"verb"', b'"job.submit"', b'"job.list"', b'"size"', b'"key"', b"{", b"}", b"[", b":",
         b",", b"-1", b"0", b"4194304", b"4194305", b"1e999", b"99999999999999999999", b'"\\ud800"', b"null", b"true",
         b'"credentials"', b"\x00", b"\xff\xfe", b"\n", b"\r\n", b"NaN", b'"a"', b" "]  # fmt: skip


@pytest.fixture(scope="module")
def site():
    with tempfile.TemporaryDirectory(prefix="rankd-socket-") as base:
        Path(base).chmod(0o755)
        machine = Machine(Path(base) / "state")
        machine.start("--no-local-agent", rights=())
        yield machine
        machine.end()


def resident_bytes(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def hostile(dice: random.Random) -> bytes:
    """What a client may send: random bytes, words of the protocol in any order, half and huge lines, wrong sizes."""
    kind = dice.randrange(6)
    if kind == 0:
        return dice.randbytes(dice.randrange(2_000))
    if kind == 1:
        return b"".join(dice.choices(WORDS, k=dice.randrange(40))) + b"\n" * dice.randrange(2)
    if kind == 2:
        return b"x" * dice.choice([4_095, 4_096, 4_097, 65_536, 65_537, 3 * 2**20]) + b"\n" * dice.randrange(2)
    if kind == 3:
        return b"[" * dice.choice([10, 1_000, 4_000]) + b"\n"
    line = {"want": "answer", "verb": dice.choice(["job.list", "job.submit", "node.drain", "../x.y", "a.b.c", "a.>"])}
    line["size"] = dice.choice([0, 1, 2, 1_000, 4 * 2**20, 4 * 2**20 + 1, 2**63, 2**64, -1])
    body = dice.randbytes(dice.choice([0, 1, 2, 1_000, 100_000]))
    return json.dumps(line).encode() + b"\n" + body


def ask(machine: Machine, sent: bytes) -> bytes:
    """The answer to this input."""
    answer = bytearray()
    with connected_as(ONE, machine) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65_536):
            answer += part
    return bytes(answer)


def test_whatever_a_user_sends_is_answered_or_closed_and_others_are_served(site):
    dice = random.Random(15)
    gateway = site.up["pids"]["gateway"]
    before = resident_bytes(gateway)
    for number in range(INPUTS):
        sent = hostile(dice)
        first = json.loads(ask(site, sent).partition(b"\n")[0])
        assert first.get("code") != "internal_error", sent[:200]
        if number % 100 == 0:
            assert log_in(TWO, site)["user"] == "bin"
    assert site.up["pids"]["gateway"] == gateway
    assert resident_bytes(gateway) < before + GROWTH_BYTES
    assert "Traceback" not in (site.directory / "log" / "gateway.log").read_text()


def test_many_connections_that_hold_what_they_may_leave_room_for_others(site):
    """Each announces the largest request, and sends half of it."""
    gateway = site.up["pids"]["gateway"]
    before = resident_bytes(gateway)
    line = json.dumps({"want": "answer", "verb": "job.submit", "size": 4 * 2**20}).encode() + b"\n"
    with ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(connected_as(ONE, site))
            connection.setblocking(False)
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                connection.sendall(line + b"x" * 2**21)
        assert log_in(TWO, site)["user"] == "bin"
        assert resident_bytes(gateway) < before + GROWTH_BYTES
    assert log_in(ONE, site)["user"] == "daemon"
