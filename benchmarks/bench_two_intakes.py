"""Two intakes against one: durable submissions per second on PostgreSQL with fsync, one by one and in batches.

``python benchmarks/bench_two_intakes.py [SECONDS] [ROUNDS]``: clients submit for that long with one intake, then with
two, ROUNDS times in turn (5 s, 3 rounds if not given). The ratio is of the medians: the target is "not slower".
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nats
from bench_take_over import TOML
from measure import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from integration.conftest import Broker
from postgres_server import SETTINGS, server

JOB: dict[str, object] = {"command": ["true"], "resources": {"vcore": 1}}
KINDS = {
    "single, 64 clients": (JOB, 64),
    "single, 512 clients": (JOB, 512),
    "batches of 100, 64 clients": ({"jobs": [JOB] * 100}, 64),
}
MOST_CLIENTS = max(clients for _, clients in KINDS.values())
WARM_UP_S = 2.0
LIMITS = "".join(f"max_pending{of} = 100000000\n" for of in ("_per_user", "_per_account", ""))
WITHOUT_LIMITS = TOML.replace("[node]", f"{LIMITS}[node]")


async def rate(client: nats.NATS, body: dict[str, object], clients: int, seconds: float) -> float:
    """Accepted jobs per second."""
    payload, accepted, end = json.dumps(body).encode(), 0, time.monotonic() + seconds

    async def submit(user: int) -> None:
        nonlocal accepted
        while time.monotonic() < end:
            answer = json.loads((await client.request(f"rankd.v1.admin.b{user}.job.submit", payload, timeout=60)).data)
            accepted += len(answer["accepted"]) if "accepted" in answer else int("id" in answer)

    begun = time.monotonic()
    await asyncio.gather(*map(submit, range(clients)))
    return accepted / (time.monotonic() - begun)


def start(directory: Path, url: str, broker: str) -> subprocess.Popen[bytes]:
    """One more intake."""
    command = [sys.executable, "-m", "rankd", "intake", "--db", url, "--nats", broker]
    with (directory / "intake.log").open("ab") as log:
        return subprocess.Popen([*command, "--config", directory / "config"], stdout=log, stderr=log)


async def answering(client: nats.NATS, number: int) -> None:
    """Wait until as many intakes answer."""
    found: set[bytes] = set()
    while len(found) != number:
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        await client.publish("rankd.v1.internal.health.intake", b"", reply=inbox)
        await asyncio.sleep(1)
        await answers.unsubscribe()
        found = {message.data async for message in answers.messages if message.data}  # without data: nobody answers


async def measure(client: nats.NATS, intakes: int, found: dict[tuple[str, int], list[float]], seconds: float) -> None:
    """All kinds, once, after each user's first submission at each intake, which waits until the user's are counted."""
    await answering(client, intakes)
    await rate(client, JOB, MOST_CLIENTS, WARM_UP_S)
    for kind, (body, clients) in KINDS.items():
        found.setdefault((kind, intakes), []).append(await rate(client, body, clients, seconds))


async def measured(directory: Path, url: str, broker: str, seconds: float, rounds: int) -> list[dict[str, object]]:
    client = await nats.connect(broker)
    found: dict[tuple[str, int], list[float]] = {}
    first = start(directory, url, broker)
    try:
        for _ in range(rounds):
            await measure(client, 1, found, seconds)
            second = start(directory, url, broker)
            await measure(client, 2, found, seconds)
            second.terminate()
            second.wait()
    finally:
        first.kill()
        first.wait()
        await client.close()
    of = {key: statistics.median(values) for key, values in found.items()}
    return [
        {"submissions": kind, "one": of[kind, 1], "two": of[kind, 2], "two/one": of[kind, 2] / of[kind, 1]}
        for kind in KINDS
    ]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    SETTINGS["fsync"] = "on"
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as temporary:
        directory, url = Path(temporary), server().url(server().make())
        (directory / "config").mkdir()
        (directory / "config" / "rankd.toml").write_text(WITHOUT_LIMITS)
        subprocess.run([sys.executable, "-m", "rankd", "db", "upgrade", "--db", url], check=True)
        broker = Broker(directory / "broker")
        broker.start()
        try:
            rows = asyncio.run(measured(directory, url, broker.url, seconds, rounds))
        finally:
            broker.kill()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    report("two_intakes", f"{rounds} rounds of {seconds:g} s, jobs per second, load {load}", rows)


if __name__ == "__main__":
    main()
