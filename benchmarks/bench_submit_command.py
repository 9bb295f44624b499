"""`rankd submit` as a whole process: over the login socket and over the broker with credentials, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import machine, report, summary

ROUNDS = 20
WARM_UP = 2


def once(directory: Path, *more: str) -> float:
    """Milliseconds from the start of the process to its end."""
    command = [sys.executable, "-m", "rankd", "submit", "--dir", str(directory), *more, "--", "true"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as base:
        directory = Path(base) / "state"
        with machine("--no-local-agent", directory=directory):
            ways = {
                "login socket": (),
                "broker, with credentials": ("--creds", str(directory / "auth" / "admin.creds")),
            }
            times = {way: list[float]() for way in ways}
            for number in range(ROUNDS + WARM_UP):
                for way, options in ways.items():
                    taken = once(directory, *options)
                    if number >= WARM_UP:
                        times[way].append(taken)
    rows = [{"way": way} | summary(values) for way, values in times.items()]
    report("submit_command", f"`rankd submit`, milliseconds of {ROUNDS} runs, alternating", rows)


if __name__ == "__main__":
    main()
