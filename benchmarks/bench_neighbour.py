"""How much one user who asks for as much as the limits allow delays another user. Both numbers come from one run.

Alice floods: single submissions, batches of 10,000 jobs, cancellations, the longest lists, requests of a megabyte,
reports, and nearly as many connections that hear all her events as a user may have: together far more than may wait.
She asks again as soon as she is answered. Bob submits a job, looks at it and lists his jobs, one after the other. His
latencies beside the flood are compared with those before and after it, with the same jobs pending.

Everything is real: accounts at the broker, durable commits, all services. Alice's processes have the lowest priority
for the processor, since users are on other machines: this measures what rankd's services do with her requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import nats.errors
import uvloop
from measure import machine, percentile, report

ROUNDS = 300
FILL_S = 20.0
REST_S = 10.0
FLOODERS = 2
LISTENERS = 48
"""Connections of each flooding process that hear alice's events."""
JOB = {"command": ["true"], "constraints": "never"}
FLOOD: dict[tuple[str, bytes], int] = {
    ("job.submit", json.dumps(JOB).encode()): 400,
    ("job.submit", json.dumps({"jobs": [JOB] * 10_000}).encode()): 4,
    ("job.cancel", b'{"filter": {"limit": 1000}}'): 4,
    ("job.list", b'{"limit": 1000, "count": true}'): 100,
    ("job.list", json.dumps({"ids": list(range(1, 100_001))}).encode()): 20,
    ("job.acct", b'{"limit": 1000}'): 50,
    ("priority.list", b'{"limit": 1000}'): 100,
    ("job.show", b'{"id": 1}'): 100,
    ("job.why", b'{"id": 1}'): 100,
    ("job.events", b'{"after": 0}'): 200,
    ("queue.list", b"{}"): 50,
    ("job.update", b'{"filter": {"limit": 1000}, "comment": "x"}'): 2,
    ("report.make", b'{"kind": "gap", "job": 1}'): 10,
    ("job.show", b"[" * 900_000): 10,
}
"""Requests that each flooding process has in flight at all times, by verb and payload."""
BOB = {"job.submit": JOB, "job.show": {"id": 0}, "job.list": {"users": ["bob"], "limit": 10}}


def credentials(up: dict[str, Any], user: str) -> str:
    """The file of this user's credentials."""
    creds = Path(up["db"]).parent / f"{user}.creds"
    if not creds.exists():
        command = [sys.executable, "-m", "rankd", "auth", "creds", "--dir", str(creds.parent), "--user", user]
        subprocess.run([*command, "--out", str(creds)], check=True, stdout=subprocess.DEVNULL)
    return str(creds)


async def connected(up: dict[str, Any], user: str) -> nats.NATS:
    """A client with credentials of this user."""
    return await nats.connect(up["nats"], user_credentials=credentials(up, user), error_cb=_quiet)


async def _quiet(_error: Exception) -> None:
    """A flood is cut off now and then."""


async def flood(up: dict[str, Any]) -> None:
    """Ask without end; prints how it was answered when it is stopped."""
    answers = Counter[str]()
    client = await connected(up, "alice")

    async def ask(verb: str, payload: bytes) -> None:
        while True:
            try:
                reply = await client.request(f"rankd.v1.user.alice.{verb}", payload, timeout=60)
            except (nats.errors.Error, TimeoutError) as error:
                answers[type(error).__name__] += 1
                await asyncio.sleep(0.01)
            else:
                answers[(reply.headers or {}).get("Nats-Service-Error-Code", "answered")] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(LISTENERS):
            listener = await connected(up, "alice")
            await listener.subscribe("rankd.v1.event.>", cb=_heard)
        for (verb, payload), number in FLOOD.items():
            for _ in range(number):
                group.create_task(ask(verb, payload))
        while os.getppid() == up["bench"]:
            await asyncio.sleep(1)
            print(json.dumps(answers), flush=True)


async def _heard(_message: object) -> None:
    """A listener that takes what comes."""


@contextlib.contextmanager
def flooded(up: dict[str, Any]) -> Iterator[Counter[str]]:
    """Flooding processes for the length of the block. Afterwards, the counter has their answers by status."""
    command = ["nice", "-n", "19", sys.executable, __file__, json.dumps(up | {"bench": os.getpid()})]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(FLOODERS)]
    answers = Counter[str]()
    try:
        yield answers
    finally:
        for process in running:
            process.terminate()
            printed = process.communicate()[0].splitlines()
            answers.update(json.loads(printed[-1]) if printed else {})


async def bob(client: nats.NATS, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each request, by verb."""
    times: dict[str, list[float]] = {verb: [] for verb in BOB}
    job = 0
    for _ in range(rounds):
        for verb, body in BOB.items():
            payload = json.dumps({"id": job} if verb == "job.show" else body).encode()
            begin = time.perf_counter()
            reply = await client.request(f"rankd.v1.user.bob.{verb}", payload, timeout=120)
            times[verb].append(1000 * (time.perf_counter() - begin))
            if (reply.headers or {}).get("Nats-Service-Error-Code"):
                raise RuntimeError(reply.data)
            job = json.loads(reply.data).get("id", job)
    return times


async def measured() -> tuple[list[dict[str, Any]], Counter[str]]:
    """A row per verb, and alice's answers."""
    with machine("--simulate", "1", "--no-local-agent") as up:
        credentials(up, "alice")
        client = await connected(up, "bob")
        await bob(client, 100)
        with flooded(up):
            await asyncio.sleep(FILL_S)
        await asyncio.sleep(REST_S)
        before = await bob(client, ROUNDS)
        with flooded(up) as answers:
            await asyncio.sleep(REST_S)
            beside = await bob(client, ROUNDS)
        await asyncio.sleep(REST_S)
        after = await bob(client, ROUNDS)
        await client.close()
    rows = []
    for verb in BOB:
        alone = before[verb] + after[verb]
        row: dict[str, Any] = {"verb": verb}
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            quiet, loud = percentile(alone, share), percentile(beside[verb], share)
            row |= {f"{name} alone ms": quiet, f"{name} beside ms": loud, f"{name} ratio": loud / quiet}
        rows.append(row)
    return rows, answers


async def main() -> None:
    """Measure and report; with an argument, flood."""
    if len(sys.argv) > 1:
        await flood(json.loads(sys.argv[1]))
        return
    rows, answers = await measured()
    told = ", ".join(f"{number} {status}" for status, number in answers.most_common())
    report("neighbour", f"{ROUNDS} rounds of bob's beside alice's flood ({told})", rows)


if __name__ == "__main__":
    uvloop.run(main())
