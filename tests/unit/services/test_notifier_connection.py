"""Lookups of names: one that takes too long keeps the place of its user until it is over."""

import asyncio
import socket
import ssl
import threading

import pytest

from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.connection import open_checked


async def test_an_attempt_lasts_as_long_as_its_lookup(monkeypatch):
    begun, over = threading.Event(), threading.Event()

    def never_answers(*_, **__):
        begun.set()
        over.wait()
        raise socket.gaierror("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", never_answers)
    async with asyncio.TaskGroup() as group:
        attempt = group.create_task(open_checked("a.example.org", 443, ssl.create_default_context(), []))
        await asyncio.to_thread(begun.wait)
        attempt.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not attempt.done()
        over.set()
    assert attempt.cancelled()


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["10.0.0.1", "::1"], ["169.254.169.254"], []])
async def test_a_name_with_private_addresses_only_is_not_connected_to(monkeypatch, answer):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in answer]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(AttemptFailed, match="private network"):
        await open_checked("a.example.org", 443, ssl.create_default_context(), ["b.example.org"])


async def test_a_name_that_is_not_known_is_reported(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(AttemptFailed, match=r"a\.example\.org is not known"):
        await open_checked("a.example.org", 443, ssl.create_default_context(), [])
