"""How long a take-over takes: the active instance of a service is killed, and a warm standby beside it follows.

``python benchmarks/bench_take_over.py [N]`` kills the active prioritizer, scheduler and intake N times each (3 if it is
not given). Seconds from the kill to the first generation, the first allocation and the first accepted submission, as a
client sees them. One PostgreSQL server without fsync, one broker, two instances of each service, one job every 0.1 s.
A lease lasts 3 s, so 2 s to 3.2 s of each take-over are the wait for its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import nats
import nats.errors
import psycopg
from measure import report, summary

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from integration.conftest import Broker
from postgres_server import server

KILLS = 3
LOOK_S = 0.02
PENDING = 2_000
SERVICES = ("intake", "prioritizer", "scheduler")
TOML = """
default_qos = "normal"
[priority]
period_s = 1
[admission]
unknown_association = "default"
[node]
lost_after_s = 3600
[[qos]]
name = "normal"
"""


class Site:
    """Two processes of each service."""

    def __init__(self, directory: Path, url: str, broker: str) -> None:
        self.url, self.broker, self.directory = url, broker, directory
        self.processes: dict[str, dict[int, subprocess.Popen[bytes]]] = {name: {} for name in SERVICES}
        self.reader = psycopg.connect(url, autocommit=True)

    def start(self, name: str) -> None:
        """Start one more instance of a service."""
        command = [sys.executable, "-m", "rankd", name, "--db", self.url, "--nats", self.broker]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([*command, "--config", self.directory / "config"], stdout=log, stderr=log)
        self.processes[name][process.pid] = process

    def role(self, name: str) -> tuple[int, int, float, float | None]:
        """Epoch, process id, since when, and when it had done its first work."""
        query = "SELECT epoch, holder, since, ready_at FROM roles WHERE name = %s"
        row = self.reader.execute(query, (name,)).fetchone()
        return (0, 0, 0.0, None) if row is None else (row[0], int(row[1].rpartition(":")[2] or 0), row[2], row[3])

    def one(self, query: str, *values: object) -> object:
        """The value that a query gives."""
        return self.reader.execute(query, values).fetchone()[0]

    async def until_ready(self, name: str, epoch: int) -> None:
        """Until the holder of this epoch, or a later one, has done its first work."""
        while (found := self.role(name))[0] < epoch or found[3] is None:  # noqa: ASYNC110 - the records are looked at
            await asyncio.sleep(LOOK_S)

    def stop(self) -> None:
        """End all of them."""
        for process in (process for one in self.processes.values() for process in one.values()):
            process.kill()
            process.wait()
        self.reader.close()


async def submit(client: nats.NATS, timeout_s: float = 0.25) -> bool:
    """Whether a submission was accepted."""
    body = json.dumps({"command": ["true"], "resources": {"vcore": 1}}).encode()
    with suppress(nats.errors.Error, TimeoutError):
        reply = await client.request("rankd.v1.user.bench.job.submit", body, timeout=timeout_s)
        return "id" in json.loads(reply.data)
    return False


async def take_over(site: Site, name: str, is_back: Callable[[float], Awaitable[bool]]) -> float:
    """Kill the active one; seconds until ``is_back``, which gets the time at which the role was taken."""
    epoch, pid, _, _ = site.role(name)
    begun = time.time()
    os.kill(pid, 9)
    site.processes[name].pop(pid).wait()
    while (found := site.role(name))[0] == epoch or not await is_back(found[2]):  # noqa: ASYNC110 - as above
        await asyncio.sleep(LOOK_S)
    took = time.time() - begun
    site.start(name)
    await site.until_ready(name, epoch + 1)
    return took


async def measured(directory: Path, kills: int, broker: str) -> dict[str, dict[str, float]]:
    database = server().make()
    url = f"{server().url(database)}&application_name=bench"
    (directory / "config").mkdir()
    (directory / "config" / "rankd.toml").write_text(TOML)
    command = [sys.executable, "-m", "rankd", "db", "upgrade", "--db", url]
    subprocess.run(command, check=True)  # noqa: ASYNC221 - nothing else runs yet
    site = Site(directory, url, broker)
    client = await nats.connect(broker)

    async def ranked(since: float) -> bool:
        return bool(site.one("SELECT count(*) FROM generations WHERE made_at >= %s", since))

    async def allocated(since: float) -> bool:
        return bool(site.one("SELECT count(*) FROM allocations WHERE allocated_at >= %s", since))

    async def accepted(_since: float) -> bool:
        return await submit(client)

    async def keep_submitting() -> None:
        while True:
            await submit(client)
            await asyncio.sleep(0.1)

    try:
        for name in SERVICES * 2:
            site.start(name)
            await site.until_ready(name, 1)
        node = {"resources": {"vcore": 1_000_000}, "agent": "n1"}
        await client.request("rankd.v1.node.n1.register", json.dumps(node).encode(), timeout=30)
        waits = {"command": ["true"], "resources": {"vcore": 1, "gpu": 1}}
        for _ in range(PENDING // 500):
            body = json.dumps({"jobs": [waits] * 500}).encode()
            await client.request("rankd.v1.user.bench.job.submit", body, timeout=60)
        found: dict[str, list[float]] = {}
        async with asyncio.TaskGroup() as group:
            submitting = group.create_task(keep_submitting())
            for _ in range(kills):
                for name, label, is_back in (
                    ("prioritizer", "first generation (prioritizer)", ranked),
                    ("scheduler", "first allocation (scheduler)", allocated),
                    ("intake", "first accepted submission (intake)", accepted),
                ):
                    await asyncio.sleep(5)  # the standby that was started last is warm
                    found.setdefault(label, []).append(await take_over(site, name, is_back))
            submitting.cancel()
        return {label: summary(values) for label, values in found.items()}
    finally:
        site.stop()
        await client.close()


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as temporary:
        broker = Broker(Path(temporary) / "broker")
        broker.start()
        try:
            found = asyncio.run(measured(Path(temporary), kills, broker.url))
        finally:
            broker.kill()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    rows = [{"seconds from the kill to the": label, **values} for label, values in found.items()]
    report("take_over", f"{kills} kills of each, {PENDING:,} pending jobs, load {load}", rows)


if __name__ == "__main__":
    main()
