"""What the notifier's tests stand on: receivers that are real servers, and a notifier beside a running intake."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiosmtpd.smtp import SMTP
from certificates import Authority
from integration.intake_stage import Stage, allocate, joined, report, send
from integration.stage import connected, ready, running, write_config
from listening import a_server
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.core.notification.pace import Pauses
from rankd.identity.signing_key import open_signing_key
from rankd.services.intake.service import IntakeOptions
from rankd.services.intake.service import run as run_intake
from rankd.services.notifier.service import NotifierOptions
from rankd.services.notifier.service import run as run_notifier

SOON = Pauses(first_s=0.01, longest_s=0.05)


class Request(NamedTuple):
    """What a receiver has read."""

    line: str
    headers: dict[str, str]
    body: bytes


class Hook:
    """An HTTPS server on localhost. ``answers``: what it writes to each request, in turn; the last one from then on.

    None: it never answers.
    """

    def __init__(self, directory: Path, *answers: bytes | None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority = Authority(directory)
        pair = authority.issue("hook", "localhost", "127.0.0.1")
        self._context.load_cert_chain(pair.certificate, pair.key)
        self.ca = authority.ca
        self.answers = list(answers or (OK,))
        self.requests = asyncio.Queue[Request]()
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/hook?a=b"

    async def __aenter__(self):
        self._server = a_server(self._serve, self.port, ssl=self._context)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(self, *reason):
        await self._server.__aexit__(*reason)

    async def _serve(self, reader, writer):
        try:
            line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(field.split(": ", 1) for field in fields if field)
            body = await reader.readexactly(int(headers["Content-Length"]))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.requests.put_nowait(Request(line, headers, body))
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def got(self) -> Request:
        async with asyncio.timeout(PATIENCE_S):
            return await self.requests.get()


OK = b"HTTP/1.1 204 No Content\r\n\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


class Mailbox:
    """The mails that a real SMTP server has taken. ``refuses``: addresses that it does not know."""

    def __init__(self, refuses: tuple[str, ...] = ()) -> None:
        self.mails = asyncio.Queue()
        self._refuses = refuses

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802 - aiosmtpd's name
        if address in self._refuses:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - aiosmtpd's name
        self.mails.put_nowait(envelope)
        return "250 OK"

    async def got(self):
        async with asyncio.timeout(PATIENCE_S):
            return await self.mails.get()


@asynccontextmanager
async def a_mail_server(mailbox, **settings):
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: SMTP(mailbox, **settings), "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


class NotifyStage(Stage):
    """An intake, and what starts a notifier beside it."""

    async def ends(self, user: str = "alice", exit_status: int = 0, **job) -> int:
        """A job that has run on node n1."""
        id_ = await self.submit(user, **job)
        allocation = await allocate(self.tmp_path, id_, "n1")
        await send(self, "n1", report(allocation, id_, "started"))
        await send(self, "n1", report(allocation, id_, "ended", at=3.0, exit_status=exit_status))
        return id_

    def configure(self, **settings: object) -> Path:
        """Write the table ``notifications``."""
        return configured(self.tmp_path, **settings)

    def options(self, broker, **fields) -> NotifierOptions:
        key = self.tmp_path / "notify.key"
        open_signing_key(key)
        return NotifierOptions(
            nats=broker.url,
            db=str(self.tmp_path / "rankd.db"),
            config=self.tmp_path / "config",
            key=key,
            **{"pauses": SOON, **fields},
        )

    @asynccontextmanager
    async def notifier(self, broker, **fields):
        """A running notifier."""
        async with running(run_notifier, self.options(broker, **fields)) as task:
            await ready(self.bus, "notifier")
            yield task


def configured(tmp_path: Path, tables: str = "", **settings: object) -> Path:
    """``tables``: more tables of rankd.toml; ``settings``: those of the table ``notifications``."""
    directory = write_config(tmp_path / "config")
    text = "\n".join(f"{name} = {written(value)}" for name, value in settings.items())
    with (directory / "rankd.toml").open("a") as file:
        file.write(f"\n{tables}\n[notifications]\n{text}\n")
    return directory


def written(value: object) -> str:
    return (
        f"[{', '.join(map(written, value))}]"
        if isinstance(value, list)
        else f'"{value}"'
        if isinstance(value, str | Path)
        else str(value)
    )


@asynccontextmanager
async def a_site(broker, tmp_path, **settings):
    options = IntakeOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=configured(tmp_path, **settings))
    async with (
        Bus(broker.url, "probe") as bus,
        connected(broker.url) as client,
        running(run_intake, options) as task,
    ):
        await ready(bus, "intake")
        stage = NotifyStage(client.connection)
        await stage.listen()
        stage.path, stage.task, stage.tmp_path, stage.bus = tmp_path / "rankd.db", task, tmp_path, bus
        await joined(stage, "n1")
        yield stage


def for_hook(hook: Hook, **settings: object) -> dict[str, object]:
    return {
        "allow": [f"https://localhost:{hook.port}/*"],
        "private_hosts": ["localhost"],
        "ca_file": hook.ca,
        **settings,
    }
