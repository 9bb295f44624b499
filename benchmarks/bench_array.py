"""Arrays: the answer to a million tasks, what they add while they wait, tasks beside single jobs, and the commands.

- Submission: milliseconds until an array of a million tasks is durable.
- Waiting: the resident memory of all services, a full pass and a cycle, with a single job and with that array as well.
- Rate: tasks of 0 s of one array, and single jobs of 0 s, in turn on the same 64 simulated nodes.
- Commands: `rankd queue` and `rankd show` with 100 arrays of a million tasks.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nats
import uvloop
from measure import connected, machine, report, summary

from rankd.store.engine.driver import sqlite3

TASKS = 1_000_000
ROUNDS = 20
ARRAYS = 100
SUBJECT = "rankd.v1.user.user{}.job.submit"
NEVER = {"command": ["true"], "resources": {"vcore": 1}, "constraints": "never"}
SHORT = {"command": ["true"], "env": {"RANKD_SIMULATE_S": "0"}, "resources": {"vcore": 1}}
SETTLE_S = 27.0
"""Five periods of full passes and more, so that memory and durations are those of a site at rest."""
RATED = 6_000
BATCH = 1_000
PATIENCE_S = 600


async def ask(client: nats.NATS, subject: str, message: object) -> dict[str, Any]:
    """The answer to a request."""
    reply = await client.request(subject, json.dumps(message).encode(), timeout=120)
    answer: dict[str, Any] = json.loads(reply.data)
    if "error" in answer or answer.get("rejected"):
        raise RuntimeError(reply.data[:500])
    return answer


def resident_bytes(up: dict[str, Any]) -> int:
    """The resident memory of the services together."""
    total = 0
    for service in ("intake", "prioritizer", "scheduler", "gateway"):
        if service in up["pids"]:
            for line in Path(f"/proc/{up['pids'][service]}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += 1024 * int(line.split()[1])
    return total


def pass_ms(database: str) -> float:
    """The median duration of the last full passes."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT durations FROM generation WHERE kind = 'full' ORDER BY number DESC LIMIT 5"
        ).fetchall()
    return statistics.median(1000 * sum(json.loads(row[0]).values()) for row in rows)


async def cycle_ms(client: nats.NATS, database: str) -> float:
    """Milliseconds from a submission to its allocation; the median of some."""
    took = []
    for _ in range(15):
        begin = time.perf_counter()
        job = (await ask(client, SUBJECT.format(1), SHORT))["id"]
        while True:
            with sqlite3.connect(database) as connection:
                [(state,)] = connection.execute("SELECT state FROM jobs WHERE id = ?", [job])
            if state != "pending":
                break
            await asyncio.sleep(0.001)
        took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took)


async def waiting(rows: list[dict[str, Any]]) -> None:
    """Submission, memory, pass and cycle; then the commands."""
    with machine("--no-local-agent", "--simulate", "4") as up:
        client = await connected(up)
        await ask(client, SUBJECT.format(1), NEVER)  # an empty ranking is less work than any
        await cycle_ms(client, up["db"])
        await asyncio.sleep(SETTLE_S)
        before = resident_bytes(up), pass_ms(up["db"]), await cycle_ms(client, up["db"])
        array = NEVER | {"array": f"0-{TASKS - 1}"}
        empty = command_ms(up["db"], "queue")
        first = await ask(client, SUBJECT.format(0), array)
        await asyncio.sleep(SETTLE_S)
        after = resident_bytes(up), pass_ms(up["db"]), await cycle_ms(client, up["db"])
        rows.append({"what": "memory of all services, one such array adds", "value": (after[0] - before[0]) / 2**20,
                     "unit": "MiB"})  # fmt: skip
        for place, what in ((1, "full pass"), (2, "submission to allocation of another job")):
            rows.append({"what": f"{what}, before", "value": before[place], "unit": "ms"})
            rows.append({"what": f"{what}, with the array", "value": after[place], "unit": "ms"})
        took = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await ask(client, SUBJECT.format(0), array)
            took.append(1000 * (time.perf_counter() - begin))
        shown = summary(took)
        rows.append({"what": "submission of a million tasks, median", "value": shown["median"], "unit": "ms"})
        rows.append({"what": "submission of a million tasks, worst", "value": shown["worst"], "unit": "ms"})
        for number in range(ARRAYS - ROUNDS - 1):
            await ask(client, SUBJECT.format(number % 5), array)
        await asyncio.sleep(1)
        rows.append({"what": "rankd queue, empty, median", "value": empty, "unit": "ms"})
        for words in (["queue"], ["show", str(first["id"])]):
            value = command_ms(up["db"], *words)
            rows.append({"what": f"rankd {words[0]}, {ARRAYS} such arrays, median", "value": value, "unit": "ms"})
        await client.close()


def command_ms(database: str, *words: str) -> float:
    """How long a command takes; the median of some."""
    took = []
    for _ in range(11):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rankd", *words, "--db", database], check=True, stdout=subprocess.DEVNULL)
        took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took)


async def submit(client: nats.NATS, number: int, *, as_array: bool) -> None:
    """Submit jobs of 0 s, held until all are there."""
    if as_array:
        await ask(client, SUBJECT.format(0), SHORT | {"array": f"0-{number - 1}"})
        return
    for _ in range(0, number, BATCH):
        await ask(client, SUBJECT.format(0), {"jobs": [SHORT] * BATCH})


def n_completed(database: str) -> int:
    """How many jobs and tasks have completed."""
    with sqlite3.connect(database) as connection:
        [(number,)] = connection.execute(
            "SELECT count(*) FROM jobs WHERE state = 'completed' AND allocation_id IS NOT NULL"
        )
    return int(number)


async def rated(client: nats.NATS, database: str, *, as_array: bool) -> float:
    """Jobs per second from the first start to the last end."""
    before, begun = n_completed(database), time.time()
    await submit(client, RATED, as_array=as_array)
    deadline = time.monotonic() + PATIENCE_S
    while n_completed(database) < before + RATED and time.monotonic() < deadline:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.2)
    with sqlite3.connect(database) as connection:
        [(first, last)] = connection.execute(
            "SELECT min(started_at), max(ended_at) FROM jobs WHERE started_at > ? AND allocation_id IS NOT NULL",
            [begun],
        )
    return RATED / (last - first)


async def rates(rows: list[dict[str, Any]], rounds: int) -> None:
    """Tasks and single jobs in turn."""
    with machine("--no-local-agent", "--simulate", "64") as up:
        client = await connected(up)
        found: dict[bool, list[float]] = {True: [], False: []}
        await rated(client, up["db"], as_array=False)
        for _ in range(rounds):
            for as_array in (False, True):
                found[as_array].append(await rated(client, up["db"], as_array=as_array))
        await client.close()
    single, tasks = (statistics.median(found[as_array]) for as_array in (False, True))
    rows.append({"what": "single jobs of 0 s", "value": single, "unit": "jobs/s"})
    rows.append({"what": "tasks of one array of 0 s", "value": tasks, "unit": "jobs/s"})
    rows.append({"what": "tasks / single jobs", "value": tasks / single, "unit": ""})


async def main() -> None:
    """Measure and report."""
    rows: list[dict[str, Any]] = []
    await waiting(rows)
    await rates(rows, int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    report("array", f"{ROUNDS} rounds, durable commits, all services on the same cores", rows)


if __name__ == "__main__":
    uvloop.run(main())
