"""What authentication costs: the same measurements with it and with ``--no-auth``, alternating in one run.

A connection is that of a user: from the call until the first answer of the broker. ``rankd submit`` is the whole
process. The rate is that of single durable submissions of one user, 64 in flight, through the user's own account.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nats
import uvloop
from bench_submission import IN_FLIGHT, singles
from measure import machine, report

ROUNDS = 5
CONNECTIONS = 40
PROCESSES = 10
SINGLES = 4_000
USER = "user0"

CASES: dict[str, tuple[str, ...]] = {"authentication": (), "--no-auth": ("--no-auth",)}


def credentials(up: dict[str, Any]) -> str | None:
    """A file of the user's credentials; None for a broker without authentication."""
    if up["services"] is None:
        return None
    file = Path(up["db"]).with_name(f"{USER}.creds")
    if not file.exists():
        rankd("auth", "creds", "--user", USER, "--out", str(file), "--dir", str(file.parent))
    return str(file)


def rankd(*words: str) -> float:
    """Run a command of rankd; returns the milliseconds of the whole process."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rankd", *words], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000


async def connections(up: dict[str, Any]) -> list[float]:
    """Milliseconds of each connection."""
    times = []
    for _ in range(CONNECTIONS):
        begun = time.perf_counter()
        client = await nats.connect(up["nats"], user_credentials=credentials(up))
        times.append((time.perf_counter() - begun) * 1000)
        await client.close()
    return times


async def submissions(up: dict[str, Any]) -> float:
    """Submissions per second, all as one user."""
    client = await nats.connect(up["nats"], user_credentials=credentials(up))
    took, _ = await singles(client, SINGLES, users=1)
    await client.close()
    return SINGLES / took


def main() -> None:
    """Measure and report."""
    connecting: dict[str, list[float]] = {what: [] for what in CASES}
    submitting: dict[str, list[float]] = {what: [] for what in CASES}
    rates: dict[str, list[float]] = {what: [] for what in CASES}
    for number in range(ROUNDS):
        for what in list(CASES)[:: 1 if number % 2 else -1]:
            with machine("--no-local-agent", *CASES[what]) as up:
                connecting[what] += uvloop.run(connections(up))
                directory = str(Path(up["db"]).parent)
                submitting[what] += [rankd("submit", "--dir", directory, "--", "true") for _ in range(PROCESSES)]
                rates[what].append(uvloop.run(submissions(up)))
    rows = [
        {
            "what": what,
            "connect ms": statistics.median(connecting[what]),
            "rankd submit ms": statistics.median(submitting[what]),
            "jobs/s": statistics.median(rates[what]),
        }
        for what in CASES
    ]
    pairs = [with_it / without for with_it, without in zip(*rates.values(), strict=True)]
    rows.append(
        {
            "what": "with / without",
            "connect ms": rows[0]["connect ms"] / rows[1]["connect ms"],
            "rankd submit ms": rows[0]["rankd submit ms"] / rows[1]["rankd submit ms"],
            "jobs/s": statistics.median(pairs),
        }
    )
    report("auth", f"medians of {ROUNDS} rounds each, alternating; {IN_FLIGHT} submissions in flight", rows)


if __name__ == "__main__":
    main()
