"""Hostile requests and messages for a running site: real processes, accounts at the broker, the services' rights.

Afterwards every service must be the same process as before, be ready, and have grown by at most
:data:`MOST_GROWTH_BYTES`; no log has a traceback; and a user's job runs to its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import nats.errors
from fuzz.hostile import Hostile
from fuzz.target import GOOD, NODE_KINDS, submission
from soak.cluster import SETTINGS

import rankd.wire.message as messages
from rankd.bus.client import PatientClient
from rankd.core.model.job import JobRequest
from rankd.wire.device import DeviceSelection
from rankd.wire.job_update import JobUpdate
from rankd.wire.report import ReportPartRequest, ReportRequest
from rankd.wire.schema_record import SchemaRequest
from rankd.wire.session import JobAttach, JobLog
from rankd.wire.web import PageLook

AT_ONCE = 64
PATIENCE_S = 300.0
MOST_GROWTH_BYTES = 128 * 2**20
"""Also for the jobs, nodes and names that the accepted part of the inputs leaves behind."""
MOST_FINDINGS = 20
SERVICES = ("intake", "prioritizer", "scheduler", "forecaster", "gateway")

VERBS: dict[str, type[msgspec.Struct] | None] = {
    "job.test": JobRequest,
    "job.cancel": messages.JobSelection, "job.hold": messages.JobSelection, "job.release": messages.JobSelection,
    "job.update": JobUpdate, "job.retry": messages.JobRetry, "job.show": messages.JobShow, "job.why": messages.JobShow,
    "job.when": messages.JobShow,
    "job.history": messages.HistoryRequest, "job.log": JobLog,
    "job.events": messages.EventsRequest, "job.list": messages.JobList,
    "job.acct": messages.AccountingFilter, "priority.list": messages.PriorityList, "node.list": messages.TableFilter,
    "device.list": messages.TableFilter,
    "queue.list": messages.TableFilter, "share.list": messages.TableFilter,
    "deadletter.list": messages.DeadLetterFilter,
    "deadletter.retry": messages.DeadLetterSelection, "deadletter.drop": messages.DeadLetterSelection,
    "class.show": messages.ClassName, "class.delete": messages.ClassName, "class.create": None, "class.update": None,
    "node.drain": messages.NodeSelection, "node.resume": messages.NodeSelection, "report.part": ReportPartRequest,
    "node.device_resume": DeviceSelection, "node.device_drain": DeviceSelection, "node.device_fail": DeviceSelection,
    "job.attach": JobAttach, "job.signal": messages.JobSignal,
    "page.look": PageLook,
    "site.show": None, "schema.show": SchemaRequest, "service.list": None, "class.list": None, "config.reload": None,
}  # fmt: skip
"""``job.submit`` has inputs of its own; ``report.make`` starts a process for each."""
NODE_VERBS = {"register": 0, "heartbeat": 1, "leave": 1, "take": 2, "report": 3, "device": 4, "opened": 5}
PUBLISHED = (
    "rankd.v1.enqueue.{name}", "rankd.v1.deadletter.{name}", "rankd.v1.event.job.{name}", "rankd.v1.event.node.{name}",
    "rankd.v1.event.queue.{name}", "rankd.v1.event.factor.{name}", "rankd.v1.event.adapter.{name}",
    "rankd.v1.event.ranking", "rankd.v1.event.scheduler", "rankd.v1.event.configuration", "rankd.v1.internal.committed",
    "rankd.v1.node.{name}.allocation", "rankd.v1.internal.health.intake", "rankd.v1.internal.diag.scheduler",
    "rankd.v1.internal.diag.prioritizer", "rankd.v1.user.{name}.job.list", "$SRV.INFO.rankd", "$SRV.STATS.rankd",
)  # fmt: skip
"""Streams and subjects that only services may publish to."""


def payload_of(hostile: Hostile, kind: type[msgspec.Struct] | None) -> bytes:
    if kind is None or hostile.chance.random() < 0.05:
        return hostile.chance.choice((hostile.noise(), hostile.document(["name", "value"], {"name": "x", "value": 1})))
    names = list(kind.__struct_fields__)
    return hostile.document(names, {name: GOOD[name] for name in names if name in GOOD})


def request(hostile: Hostile) -> tuple[str, bytes]:
    """A subject that is answered, and a payload."""
    chance = hostile.chance
    user = f"u{chance.randrange(20)}" if chance.random() < 0.9 else hostile.token()
    role = chance.choice(("user", "user", "admin"))
    kind = chance.random()
    if kind < 0.3:
        return f"rankd.v1.{role}.{user}.job.submit", submission(hostile)[0]
    if kind < 0.31:
        return f"rankd.v1.{role}.{user}.report.make", payload_of(hostile, ReportRequest)
    if kind < 0.5:
        verb = chance.choice(list(NODE_VERBS))
        node = f"n{chance.randrange(9)}" if chance.random() < 0.9 else hostile.token()
        return f"rankd.v1.node.{node}.{verb}", payload_of(hostile, NODE_KINDS[NODE_VERBS[verb]])
    verb = chance.choice(list(VERBS))
    return f"rankd.v1.{role}.{user}.{verb}", payload_of(hostile, VERBS[verb])


def publication(hostile: Hostile) -> tuple[str, bytes, dict[str, str] | None]:
    """A subject that is read but not answered, a payload and headers."""
    subject = hostile.chance.choice(PUBLISHED).format(name=hostile.token())
    headers = {"Nats-Msg-Id": hostile.token()} if hostile.chance.random() < 0.2 else None
    data = submission(hostile)[0] if "enqueue" in subject else payload_of(hostile, messages.JobEvents)
    return subject, data, headers


class Site:
    """A ``rankd up`` with a simulated node, and a client with the services' rights."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._config = directory / "config"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._config.mkdir()
        (self._config / "rankd.toml").write_text(SETTINGS)
        command = [sys.executable, "-m", "rankd", "up", "--dir", str(self.directory / "site")]
        command += ["--config", str(self._config), "--simulate", "1", "--no-local-agent", "--run-as", "agent"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self._process.stdout:
            said.append(line)
            if line.startswith("rankd is up"):
                return
        raise RuntimeError("rankd up ended:\n" + "".join(said))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate()

    @property
    def up(self) -> Mapping[str, object]:
        return json.loads((self.directory / "site" / "up.json").read_text())

    def pids(self) -> dict[str, int]:
        return {name: pid for name, pid in self.up["pids"].items() if name in SERVICES}

    def tracebacks(self) -> list[str]:
        """The logs with tracebacks, and the first one of each."""
        found = []
        for log in sorted((self.directory / "site" / "log").glob("*")):
            before, mark, after = log.read_text(errors="replace").partition("Traceback (most recent call last)")
            if mark:
                found.append(f"{log.name}: {before[-500:]}{mark}…{after[-2_000:]}")
        return found

    async def connect(self) -> PatientClient:
        client = PatientClient()
        creds = str(self.directory / "site" / "auth" / "services.creds")
        await client.connect(self.up["nats"], user_credentials=creds, error_cb=_quiet, pending_size=64 * 2**20)
        return client


async def _quiet(_error: Exception) -> None:
    """The broker refuses some subjects and headers."""


class Fuzz:
    """Sends the inputs and counts the answers."""

    def __init__(self, client: PatientClient, seed: int) -> None:
        self._client = client
        self._seed = seed
        self.answers: Counter[str] = Counter()
        self.findings: list[dict[str, object]] = []

    def find(self, number: int, what: str, given: object) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append({"target": "site", "number": number, "what": what, "given": f"{given!r:.2000}"})

    async def send(self, begin: int, end: int) -> None:
        """The inputs with these numbers."""
        numbers = iter(range(begin, end))

        async def some() -> None:
            for number in numbers:
                await self._one(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())
        await self._client.flush()

    async def _one(self, number: int) -> None:
        hostile = Hostile(f"{self._seed} site {number}")
        try:
            if hostile.chance.random() < 0.2:
                await self._client.publish(*_with_reply(*publication(hostile)))
                self.answers["published"] += 1
                return
            await self._ask(number, *request(hostile))
        except (ValueError, nats.errors.BadSubjectError, nats.errors.MaxPayloadError) as refused:
            self.answers[f"not sent: {type(refused).__name__}"] += 1

    async def _ask(self, number: int, subject: str, payload: bytes) -> None:
        try:
            reply = await self._client.request(subject, payload, timeout=PATIENCE_S)
        except nats.errors.NoRespondersError:
            self.answers["no responders"] += 1
            return
        except TimeoutError:
            self.find(number, "no answer", (subject, payload))
            return
        status = (reply.headers or {}).get("Nats-Service-Error-Code", "answered")
        self.answers[status] += 1
        try:
            code = json.loads(reply.data).get("code") if status != "answered" else None
        except ValueError:
            self.find(number, "the answer is not JSON", (subject, payload, reply.data))
            return
        if code == "internal_error":
            self.find(number, "internal_error", (subject, payload))


def _with_reply(subject: str, payload: bytes, headers: dict[str, str] | None) -> tuple[object, ...]:
    return subject, payload, "_INBOX.nobody.x", headers


async def still_works(client: PatientClient) -> list[str]:
    """What does not work any more: services that are not ready, a job that does not end."""
    wrong = []
    until = time.monotonic() + PATIENCE_S
    for service in SERVICES[:3]:
        health: Mapping[str, object] = {}
        while not health.get("ready") and time.monotonic() < until:
            try:
                reply = await client.request(f"rankd.v1.internal.health.{service}", b"", timeout=10)
                health = json.loads(reply.data)
            except (nats.errors.Error, TimeoutError):
                await asyncio.sleep(1)
        if not health.get("ready"):
            wrong.append(f"{service} is not ready: {health}")
    job = await asked(client, "admin.root.job.submit", {"command": ["true"], "user": "carol", "urgency": 31})
    await asked(client, "admin.root.node.resume", {"nodes": ["sim-1"]})
    shown: Mapping[str, object] = {}
    while shown.get("state") != "completed" and time.monotonic() < until:
        shown = await asked(client, "user.carol.job.show", {"id": job["id"]})
        await asyncio.sleep(0.2)
    if shown.get("state") != "completed":
        wrong.append(f"a job does not end: {shown}")
    return wrong


async def asked(client: PatientClient, subject: str, body: object) -> Mapping[str, object]:
    reply = await client.request(f"rankd.v1.{subject}", json.dumps(body).encode(), timeout=PATIENCE_S)
    return json.loads(reply.data)


def resident(pids: Mapping[str, int]) -> dict[str, int]:
    """The memory of each service; 0 for one that is gone."""
    sizes = {}
    for name, pid in pids.items():
        try:
            sizes[name] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        except OSError:
            sizes[name] = 0
    return sizes


async def fuzz_site(number: int, seed: int) -> dict[str, object]:
    """Send inputs to a new site; the report."""
    with tempfile.TemporaryDirectory(prefix="rankd-fuzz-") as directory:
        site = Site(Path(directory))
        site.start()
        try:
            return await _fuzz(site, number, seed)
        finally:
            site.stop()


async def _fuzz(site: Site, number: int, seed: int) -> dict[str, object]:
    client, pids = await site.connect(), site.pids()
    fuzz, begin, warm = Fuzz(client, seed), time.monotonic(), number // 10
    await fuzz.send(0, warm)
    before = resident(pids)
    await fuzz.send(warm, number)
    after = resident(pids)
    for what in await still_works(client):
        fuzz.find(number, what, "")
    await client.close()
    if site.pids() != pids:
        fuzz.find(number, f"services were started again: {pids} before, {site.pids()} after", "")
    for found in site.tracebacks():
        fuzz.find(number, found, "")
    grown = {name: after[name] - before[name] for name in pids}
    for name, size in grown.items():
        if size > MOST_GROWTH_BYTES:
            fuzz.find(number, f"{name} has grown by {size} bytes", "")
    return {
        "inputs": number,
        "seed": seed,
        "took_s": round(time.monotonic() - begin, 1),
        "answers": dict(fuzz.answers.most_common()),
        "grown_bytes": grown,
        "findings": fuzz.findings,
    }
