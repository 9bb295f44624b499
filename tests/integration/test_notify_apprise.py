"""Targets that only the library apprise knows: sent by a process of its own, which may do little."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess

import builder
import pytest
from integration.notify_stage import OK, Request, a_site
from integration.stage import true_in_time
from listening import a_server
from watch import PATIENCE_S

from rankd.core.notification.pace import Pauses
from rankd.services.notifier.apprise_worker import SENDING, Guard


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


class Plain:
    """An HTTP server without encryption: apprise's scheme ``json://`` sends to one."""

    def __init__(self, answer: bytes = OK) -> None:
        self.requests = asyncio.Queue[Request]()
        self._answer = answer

    async def __aenter__(self):
        self._server = a_server(self._serve)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(self, *reason):
        await self._server.__aexit__(*reason)

    async def _serve(self, reader, writer):
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(field.split(": ", 1) for field in fields if field)
        body = await reader.readexactly(int(headers.get("Content-Length", 0)))
        self.requests.put_nowait(Request(line, headers, body))
        writer.write(self._answer)
        await writer.drain()
        writer.close()


def settings(**more: object) -> dict[str, object]:
    return {"allow": ["json://*", "nonsense://*"], "time_limit_s": PATIENCE_S / 5 if PATIENCE_S < 600 else 120, **more}


FAR = Pauses(first_s=3600.0)


async def letter(stage, target: str) -> str:
    await stage.ends(notify={"on": ["end"], "to": [target]})
    await stage.until(lambda: stage.rows("SELECT message FROM dead_letter"))
    return stage.rows("SELECT message FROM dead_letter")[0][0]


async def test_a_service_gets_title_and_text(broker, tmp_path):
    async with (
        Plain() as server,
        a_site(broker, tmp_path, **settings(private_hosts=["127.0.0.1"])) as stage,
        stage.notifier(broker),
    ):
        await stage.ends(notify={"on": ["end"], "to": [f"json://127.0.0.1:{server.port}/x"]}, name="<b>a</b>")
        async with asyncio.timeout(PATIENCE_S):
            request = await server.requests.get()
        content = json.loads(request.body)
        assert content["title"] == "rankd: job 1 completed (<b>a</b>)"
        assert "Job 1 completed" in content["message"]
        await true_in_time(lambda: stage.rows("SELECT state FROM notifications") == [("done",)])
        assert stage.rows("SELECT * FROM dead_letter") == []


async def test_a_private_address_is_not_reached(broker, tmp_path):
    async with (
        Plain() as server,
        a_site(broker, tmp_path, **settings(retry_for_s=1)) as stage,
        stage.notifier(broker, pauses=FAR),
    ):
        assert "could not send" in await letter(stage, f"json://127.0.0.1:{server.port}/x")
        assert server.requests.empty()


async def test_a_redirect_is_not_followed(broker, tmp_path):
    async with Plain() as other:
        answer = f"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:{other.port}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with (
            Plain(answer) as server,
            a_site(broker, tmp_path, **settings(private_hosts=["127.0.0.1"], retry_for_s=1)) as stage,
            stage.notifier(broker, pauses=FAR),
        ):
            assert "could not send" in await letter(stage, f"json://127.0.0.1:{server.port}/x")
            assert other.requests.empty()
            assert not server.requests.empty()


async def test_a_scheme_that_nobody_knows_is_reported(broker, tmp_path):
    async with (
        a_site(broker, tmp_path, **settings(retry_for_s=1)) as stage,
        stage.notifier(broker, pauses=FAR),
    ):
        assert "does not know such a target" in await letter(stage, "nonsense://a/b")


def test_the_hook_refuses_programs_and_sockets_of_this_machine():
    guard = Guard(["127.0.0.1"])
    guard.allow_named()
    guard("open", ("/etc/hosts", "r", 0))
    guard("socket.connect", (None, ("127.0.0.1", 1)))
    guard("socket.connect", (None, ("8.8.8.8", 53)))
    for address in (("10.0.0.1", 80), ("localhost", 80), "/run/dbus", ("::1", 80, 0, 0), b"x", ()):
        with pytest.raises(PermissionError):
            guard("socket.connect", (None, address))
    guard("socket.sendmsg", (None, None))
    for event in ("socket.sendto", "socket.sendmsg"):
        with pytest.raises(PermissionError):
            guard(event, (None, ("10.0.0.1", 53)))
    for event in ("subprocess.Popen", "os.spawn", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
        with pytest.raises(PermissionError, match=event):
            guard(event, ())


def test_the_names_of_the_hook_are_those_of_the_interpreter():
    """Events that Python raises: a wrong name would refuse nothing."""
    import sys

    seen, active = set(), [True]
    sys.addaudithook(lambda event, _: active and seen.add(event))
    subprocess.run(["true"], check=True)
    os.system("true")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as open_socket:
        open_socket.sendmsg([b""], [], 0, ("127.0.0.1", 9))
        open_socket.sendto(b"", ("127.0.0.1", 9))
        open_socket.connect(("127.0.0.1", 9))
    active.clear()
    assert {"subprocess.Popen", "os.system"} | SENDING <= seen
