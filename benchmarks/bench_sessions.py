"""What sessions take: `rankd run -- true`, a key to its echo, a command's output, one large log, many followers.

``python benchmarks/bench_sessions.py [PART]``: PART (1 by default) of the bytes, lines and repetitions. The modules'
bytecode is kept, as in an installation by pip.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import statistics
import subprocess
import sys
import time
import tty
from pathlib import Path
from typing import Any

import uvloop
from measure import machine, percentile, report

from rankd.bus.connection import Bus
from rankd.bus.log_stream import LogStream
from rankd.client import Client
from rankd.client.asker import Asker
from rankd.client.job_output import JobOutput
from rankd.identity.credentials import source_of
from rankd.wire.session import JobLog

PART = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
LOG_BYTES = int(400_000_000 * PART)
OUT_BYTES = int(200_000_000 * PART)
RUNS = max(3, int(30 * PART))
KEYS = max(10, int(200 * PART))
FOLLOWERS = (0, 1, 200)
LINES = max(30, int(300 * PART))
LARGE = ["sh", "-c", f"head -c {LOG_BYTES} /dev/zero | tr '\\0' x"]
RANKD = str(Path(sys.executable).with_name("rankd"))
CHATTY = f"""
import sys, time
begun = time.monotonic()
for number in range({LINES}):
    print(f"{{number:06d}} " + "x" * 92, flush=True)
    time.sleep(0.02)
print(time.monotonic() - begun, file=sys.stderr)
"""
"""Writes a line of 100 bytes 50 times a second, and then how long that took, in seconds."""


def whole_runs(env: dict[str, str]) -> list[float]:
    """Milliseconds of `rankd run -- true` as a whole process, after one that warms up."""
    found = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run([RANKD, "run", "--", "true"], check=True, env=env, stdin=subprocess.DEVNULL)
        found.append((time.perf_counter() - begun) * 1e3)
    return found[1:]


def echoes(env: dict[str, str]) -> list[float]:
    """Milliseconds from each key to its echo, by the terminal of a `rankd run --pty -- cat`."""
    here, there = pty.openpty()
    tty.setraw(there)
    process = subprocess.Popen([RANKD, "run", "--pty", "--", "cat"], stdin=there, stdout=there, stderr=there, env=env)
    os.write(here, b"#")
    shown, found = b"", []
    while b"#" not in shown:
        shown += os.read(here, 4096)
    time.sleep(0.5)
    for _ in range(KEYS):
        begun = time.perf_counter()
        os.write(here, b"k")
        select.select([here], [], [], 60)
        found.append((time.perf_counter() - begun) * 1e3)
        os.read(here, 4096)
        time.sleep(0.02)
    os.write(here, b"\r\x04")
    process.wait()
    os.close(here)
    os.close(there)
    return found


def out(env: dict[str, str]) -> float:
    """Megabytes per second from a command to the reader of `rankd run`, its start included."""
    command = [RANKD, "run", "--", "head", "-c", str(OUT_BYTES), "/dev/zero"]
    begun, n_bytes = time.perf_counter(), 0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env) as process:
        while part := os.read(process.stdout.fileno(), 2**20):
            n_bytes += len(part)
    assert n_bytes == OUT_BYTES
    return n_bytes / (time.perf_counter() - begun) / 1e6


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
    assert sizes == [LINES * 100] * followers
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
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env = kept | {"RANKD_DIR": str(Path(up["db"]).parent)}
        runs, keys = await asyncio.to_thread(whole_runs, env), await asyncio.to_thread(echoes, env)
        rows = [
            {"what": "rankd run -- true, whole process, median ms", "result": statistics.median(runs), "target": "200"},
            {"what": "the same, p90 ms", "result": percentile(runs, 0.9), "target": ""},
            {"what": "a key to its echo, median ms", "result": statistics.median(keys), "target": "10"},
            {"what": "the same, p90 ms", "result": percentile(keys, 0.9), "target": ""},
            {"what": "output of rankd run, MB/s", "result": await asyncio.to_thread(out, env), "target": "at least 20"},
        ]
        async with Client(directory=Path(up["db"]).parent, admin=True) as client:
            result = await rate(client)
            rows.append({"what": "one log to one reader, MB/s", "result": result, "target": "at least 50"})
            for followers in FOLLOWERS:
                took = await chatty(client, up, followers)
                what = f"a job of {LINES} lines with {followers} followers, s"
                rows.append({"what": what, "result": took, "target": "as with 0" if followers else ""})
    report("sessions", f"a log of {LOG_BYTES:,} bytes; a line of 100 bytes 50 times a second", rows)


if __name__ == "__main__":
    uvloop.run(main())
