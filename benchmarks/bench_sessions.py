"""What `rankd logs` moves, and what followers cost a job: one large log, and many followers of one chatty job."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from measure import machine, report

from rankd.bus.connection import Bus
from rankd.bus.log_stream import LogStream
from rankd.client import Client
from rankd.client.asker import Asker
from rankd.client.job_output import JobOutput
from rankd.identity.credentials import source_of
from rankd.wire.session import JobLog

LOG_BYTES = 400_000_000
FOLLOWERS = (1, 200)
LINES = 300
LARGE = ["sh", "-c", f"head -c {LOG_BYTES} /dev/zero | tr '\\0' x"]
CHATTY = f"""
import sys, time
begun = time.monotonic()
for number in range({LINES}):
    print(f"{{number:06d}} " + "x" * 92, flush=True)
    time.sleep(0.02)
print(time.monotonic() - begun, file=sys.stderr)
"""
"""Writes a line of 100 bytes 50 times a second, and then how long that took, in seconds."""


async def rate(client: Client) -> float:
    """Megabytes per second of one log to one reader."""
    job = (await client.submit(command=LARGE)).id
    await client.wait(job)
    begun, n_bytes = time.perf_counter(), 0
    async for part in client.logs(job):
        n_bytes += len(part)
    assert n_bytes == LOG_BYTES
    return n_bytes / (time.perf_counter() - begun) / 1e6


async def chatty(client: Client, up: dict[str, Any], followers: int) -> float:
    """Seconds that the job takes to write its lines while it is followed."""
    job = (await client.submit(command=[sys.executable, "-c", CHATTY])).id
    async with Bus(up["nats"], "bench", credentials=source_of(Path(up["creds"]))) as bus:
        sizes = await asyncio.gather(*(follow(bus, job) for _ in range(followers)))
    assert set(sizes) == {LINES * 100}
    await client.wait(job)
    return float(b"".join([part async for part in client.logs(job, stream="stderr")]))


async def follow(bus: Bus, job: int) -> int:
    """Follow a job that may not have started; returns the number of its bytes."""
    output = JobOutput(bus, Asker(bus.user or ""), JobLog(id=job, follow=True))
    stream = await output.begun(0)
    assert isinstance(stream, LogStream)
    return sum([len(part) async for part in stream.parts()])


async def main() -> None:
    """Print the figures, and write them down."""
    with machine() as up:
        async with Client(directory=Path(up["db"]).parent, admin=True) as client:
            rows = [{"what": "one log to one reader, MB/s", "result": await rate(client)}]
            for followers in FOLLOWERS:
                took = await chatty(client, up, followers)
                rows.append({"what": f"a job of {LINES} lines with {followers} followers, s", "result": took})
    report("sessions", f"a log of {LOG_BYTES:,} bytes; a line of 100 bytes 50 times a second", rows)


if __name__ == "__main__":
    uvloop.run(main())
