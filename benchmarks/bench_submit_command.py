"""`rankd submit` as a whole process: a command and a script over the login socket, and a command over the broker.

The first row is an interpreter that does nothing. The modules' bytecode is kept, as in an installation by pip: where
``PYTHONDONTWRITEBYTECODE`` is set, a source tree is compiled again by each process, which takes 30 ms.
"""

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
SCRIPT = "#!/bin/sh\n#SBATCH -J bench -n 2 --mem-per-cpu=100M\n#SBATCH -t 10\ntrue\n"
COMMAND = ("--", "true")


def once(*words: str) -> float:
    """Milliseconds from the start of the process to its end."""
    command = [sys.executable, *words]
    left_out = ("RANKD_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as base:
        directory = Path(base) / "state"
        with machine("--no-local-agent", directory=directory):
            (script := Path(base) / "script.sh").write_text(SCRIPT)
            submit = ("-m", "rankd", "submit", "--dir", str(directory))
            ways = {
                "python -c pass": ("-c", "pass"),
                "login socket": (*submit, *COMMAND),
                "login socket, a script": (*submit, str(script)),
                "broker, with credentials": (*submit, "--creds", str(directory / "auth" / "admin.creds"), *COMMAND),
            }
            times = {way: list[float]() for way in ways}
            for number in range(ROUNDS + WARM_UP):
                for way, options in ways.items():
                    taken = once(*options)
                    if number >= WARM_UP:
                        times[way].append(taken)
    rows = [{"way": way} | summary(values) for way, values in times.items()]
    report("submit_command", f"`rankd submit`, milliseconds of {ROUNDS} runs, alternating", rows)


if __name__ == "__main__":
    main()
