"""Clients at a socket where something answers that is not rankd's gateway, and does not stop."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from rankd.bus import login
from rankd.bus.login import PART_BYTES, ask_at, short_path
from rankd.client import async_channel
from rankd.client.async_channel import AsyncSocketChannel
from rankd.client.step import Ask
from rankd.core.errors import Unavailable
from rankd.wire.login_size import MOST_ANSWER_BYTES

LIMIT = 2**20
ENDLESS = 32 * LIMIT
"""What the other side would send: the test ends also if the client would read it all."""


@contextmanager
def answering(path, line: bytes):
    """A server that answers with a line, and then with bytes. Yields what it has sent, once it has ended."""
    sent: list[int] = []
    with socket.socket(socket.AF_UNIX) as listening:
        with short_path(path) as short:
            listening.bind(short)
        listening.listen()

        def reply() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(4096)
                connection.sendall(line)
                while sum(sent) < ENDLESS:
                    connection.sendall(b"x" * PART_BYTES)
                    sent.append(PART_BYTES)

        thread = threading.Thread(target=reply)
        thread.start()
        yield sent
        thread.join()


@pytest.mark.parametrize("line", [b'{"size": 1, "status": null}\n', b"", b"{"])
def test_a_command_does_not_read_an_endless_answer(tmp_path, monkeypatch, line):
    monkeypatch.setattr(login, "MOST_ANSWER_BYTES", LIMIT)
    with (
        answering(tmp_path / "login.sock", line) as sent,
        pytest.raises(Unavailable, match="is not rankd's gateway"),
    ):
        ask_at(tmp_path / "login.sock", "job.list", b"{}")
    assert sum(sent) < 4 * LIMIT


async def test_nor_does_the_client_for_asyncio(tmp_path, monkeypatch):
    monkeypatch.setattr(async_channel, "MOST_ANSWER_BYTES", LIMIT)
    monkeypatch.setattr(async_channel, "CONNECT_TIMEOUT_S", 0.0)
    with answering(tmp_path / "login.sock", b'{"size": 1, "status": null}\n') as sent:
        with pytest.raises(Unavailable, match="is not rankd's gateway"):
            await AsyncSocketChannel(tmp_path / "login.sock").request(Ask("job.list", b"{}", dict))
        await asyncio.sleep(0)  # the transport closes its socket with the next turn
    assert sum(sent) < 4 * LIMIT


def test_the_limit_is_above_what_a_broker_lets_through():
    assert MOST_ANSWER_BYTES >= 64 * 2**20
