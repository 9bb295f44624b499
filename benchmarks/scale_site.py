"""A rankd that runs on a prepared database, for the measurements of scale: client, node, processes."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nats
from measure import connected, machine, percentile

from rankd.services.runtime.life import end_tasks
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.postgres_connection import connect

PROBE = {"command": ["true"], "user": "u0-0", "resources": {"probe": 1}}
QUEUE, QUEUE_OF_FEW = "root.q0.q0.q0", "root.q0.q0"
NODE, FULL_NODE = "probe-node", "full-node"
PATIENCE_S = 120.0

Row = dict[str, Any]


def row(what: str, values: list[float], unit: str, target: str) -> Row:
    """Median, p99 and the worst of several values."""
    return {
        "what": what,
        "median": statistics.median(values),
        "p99": percentile(values, 0.99),
        "worst": max(values),
        "n": len(values),
        "unit": unit,
        "target": target,
    }


class Site:
    """A running rankd: a NATS client, the probes' node, and a reading connection to the database."""

    def __init__(self, client: nats.NATS, database: Path | str, pid: int, queue: str) -> None:
        self.client = client
        self.queue = queue
        self.database = database
        self.pid = pid
        self.reader: Any
        self._prepared: dict[str, bool] = {}
        if isinstance(database, str):  # each query is planned once, as in a file: planning it each time loads a core
            self._prepared["prepare"] = True
            self.reader = connect(database)
            self.reader.prepare_threshold = 0
            self.reader.execute("SET plan_cache_mode TO force_generic_plan")
        else:
            self.reader = sqlite3.connect(database, isolation_level=None)
            self.reader.execute("PRAGMA query_only = ON")
        self.taken: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
        """Each job that one of the nodes was given, and when."""

    async def join(self) -> None:
        """Add the node that only probes fit."""
        body = json.dumps({"resources": {"probe": 10**6, "vcore": 10**6}, "agent": NODE}).encode()
        await self.client.request(f"rankd.v1.node.{NODE}.register", body, timeout=PATIENCE_S)

    async def fill(self) -> None:
        """Add a node, and wait until the first jobs of the queue have taken all of it."""
        body = json.dumps({"resources": {"vcore": 64, "memory": "4Ti"}, "agent": NODE}).encode()
        await self.client.request(f"rankd.v1.node.{FULL_NODE}.register", body, timeout=PATIENCE_S)
        await self.until("SELECT nullif(count(*), 0) FROM allocations WHERE nodes LIKE ?", f"%{FULL_NODE}%")
        await self.until("SELECT reason FROM wait_reasons WHERE reason = 'resources' LIMIT 1")

    async def stay(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await asyncio.sleep(5)
            for node in (NODE, FULL_NODE):
                body = json.dumps({"nodes": [node]}).encode()
                await self.client.request(f"rankd.v1.node.{node}.heartbeat", body, timeout=PATIENCE_S)

    async def serve(self) -> None:
        """Take the nodes' allocations until cancelled, as agents do. Nothing is started, and nothing ends."""
        hints = await self.client.subscribe("rankd.v1.node.*.allocation")
        for node in (NODE, FULL_NODE):
            await self._take(node)
        async for hint in hints.messages:
            await self._take(hint.subject.split(".")[3])

    async def _take(self, node: str) -> None:
        has_more = True
        while has_more:
            body = json.dumps({"agent": node}).encode()
            reply = await self.client.request(f"rankd.v1.node.{node}.take", body, timeout=PATIENCE_S)
            answer = json.loads(reply.data)  # an error before the node has registered
            for start in answer.get("starts", ()):
                self.taken.put_nowait((start["job"], time.time()))
            has_more = answer.get("more", False)

    async def submit(self, what: Mapping[str, object] = MappingProxyType({})) -> int:
        """Submit one probe, or a job with another request; returns its id once it is durable."""
        body = json.dumps(PROBE | {"queue": self.queue} | dict(what)).encode()
        reply = await self.client.request("rankd.v1.user.u0-0.job.submit", body, timeout=PATIENCE_S)
        answer = json.loads(reply.data)
        if "id" not in answer:
            raise RuntimeError(reply.data)
        return int(answer["id"])

    async def until(self, sql: str, *values: object) -> Any:
        """The first result of the query that is not null; waits for it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = self.reader.execute(sql, values, **self._prepared).fetchone()
            if found is not None and found[0] is not None:
                return found[0]
            await asyncio.sleep(0.001)
        raise TimeoutError(sql)

    def full_passes(self, since: float) -> list[float]:
        """Seconds from the beginning of each full pass until it was visible."""
        sql = "SELECT made_at - ranked_at FROM generation WHERE kind = 'full' AND ranked_at > ?"
        return [seconds for (seconds,) in self.reader.execute(sql, (since,))]

    async def count_anew(self) -> None:
        """Let the services reset their counts."""
        await self.client.request("rankd.v1.admin.root.diag.show", b'{"reset": true}', timeout=PATIENCE_S)

    async def cycle_row(self, what: str, target: str) -> Row:
        """The scheduler's cycles since its counts were reset, at most a thousand."""
        reply = await self.client.request("rankd.v1.user.root.diag.show", b"{}", timeout=PATIENCE_S)
        took = json.loads(reply.data)["scheduler"]["durations"]["cycle"]
        shown = {key: took[key] if key == "n" else took[key] * 1000 for key in ("median", "p99", "worst", "n")}
        return {"what": what, **shown, "unit": "ms", "target": target}

    def processor_ms(self, name: str) -> float:
        """The processor time of one service since it started, with all its threads."""
        spent = 0
        for child in children(self.pid):
            if _name(child) == name:
                tasks = Path(f"/proc/{child}/task").iterdir()
                spent += sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        return spent / 1e6

    def memory(self) -> dict[str, tuple[int, int]]:
        """Present and peak bytes, by process."""
        found = {}
        for child in children(self.pid):
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
            found[_name(child)] = tuple(int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        return found


def children(pid: int) -> Iterator[int]:
    """The processes that this one has started."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            stat = (entry / "stat").read_text()
            if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
                yield int(entry.name)


def _name(pid: int) -> str:
    """The name of a service, or of a program."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"rankd" in words:  # python -P -m rankd SERVICE
        return words[words.index(b"rankd") + 1].decode()
    return Path(words[0].decode()).name


@contextmanager
def rankd_up(directory: Path, config: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A `rankd up` on the prepared database."""
    with machine("--config", str(config), "--no-local-agent", *options, directory=directory) as up:
        yield up


async def with_site(
    directory: Path, config: Path, measure: Callable[[Site], Awaitable[list[Row]]], queue: str = QUEUE, *options: str
) -> list[Row]:
    """The rows that ``measure`` returns for a rankd that was started on this directory."""
    with rankd_up(directory, config, *options) as up:
        client = await connected(up)
        site = Site(client, up["db"] if "://" in up["db"] else Path(up["db"]), up["pid"], queue)
        await site.join()
        async with asyncio.TaskGroup() as group:
            agents = [group.create_task(site.stay()), group.create_task(site.serve())]
            rows = await measure(site)
            await end_tasks(*agents)
        await client.close()
        site.reader.close()
        return rows
