"""Many soaks, one after the other, beside busy loops: ``python tests/soak/series.py RUNS SECONDS FIRST_SEED BUSY``.

Each soak is a process of its own with the next seed. A soak that failed keeps its directory, and is reported in full;
the last line says how many passed. ``BUSY`` processes compute all the while, so that the machine is never idle.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUN = Path(__file__).with_name("run.py")
FACTS = ("faults", "submitted", "settled_s", "reloads", "tracebacks")
PATIENCE_S = 600
"""A soak may last this much longer than its faults: start, settling and verdict on a busy machine."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Processes that only compute."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_one(seconds: float, seed: int, directory: Path) -> dict[str, object]:
    """The soak's report; one that hangs or prints no report is itself wrong."""
    command = [sys.executable, str(RUN), str(seconds), str(seed), str(directory)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=seconds + PATIENCE_S)
    except subprocess.TimeoutExpired:
        return {"wrong": [f"the soak did not end within {seconds + PATIENCE_S:.0f} s"]}
    start = done.stdout.find("{")
    if start < 0:
        return {"wrong": [f"the soak ended with {done.returncode} and no report"]}
    report: dict[str, object] = json.loads(done.stdout[start:])
    return report


def main() -> int:
    """From the command line."""
    runs, seconds, first, loops = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    root = Path(tempfile.mkdtemp(prefix="rankd-soak-series-"))
    failed = []
    with busy(loops):
        for seed in range(first, first + runs):
            begun, directory = time.monotonic(), root / f"seed-{seed}"
            report = run_one(seconds, seed, directory)
            verdict = "wrong" if report["wrong"] else "passed"
            facts = " ".join(f"{name} {report.get(name)}" for name in FACTS)
            took, load = time.monotonic() - begun, os.getloadavg()[0]
            print(f"seed {seed}: {verdict} in {took:.0f} s, load {load:.1f}; {facts}", flush=True)
            if report["wrong"]:
                failed.append(seed)
                print(json.dumps(report, indent=1), f"\nits files: {directory}", flush=True)
            else:
                shutil.rmtree(directory, ignore_errors=True)
    if not failed:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{runs - len(failed)} of {runs} soaks passed beside {loops} busy loops; failed seeds: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
