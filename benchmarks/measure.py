"""Shared by the benchmarks: a separate rankd, tables, JSON results."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats

RESULTS = Path(__file__).parent / "results"


@contextmanager
def machine(*options: str, directory: Path | None = None) -> Iterator[dict[str, Any]]:
    """A separate ``rankd up``, in a new directory unless one is given; yields its up.json."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as own:
        directory = directory or Path(own)
        command = [sys.executable, "-m", "rankd", "up", "--dir", str(directory), "--run-as", "agent", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for line in process.stdout:
                if line.startswith("rankd is up"):
                    break
            services = directory / "auth" / "services.creds"
            found = {"pid": process.pid, "services": str(services) if services.exists() else None}
            yield json.loads((directory / "up.json").read_text()) | found
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


async def connected(up: dict[str, Any]) -> nats.NATS:
    """A client of this ``rankd up`` with the services' rights: it may ask as any user and as any node."""
    return await nats.connect(up["nats"], user_credentials=up["services"])


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, p90, p99, worst, in the unit given."""
    return {
        "median": statistics.median(values),
        "p90": percentile(values, 0.90),
        "p99": percentile(values, 0.99),
        "worst": max(values),
    }


def report(name: str, conditions: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table and write benchmarks/results/<name>.json."""
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[at]) for line in cells)) for at, column in enumerate(columns)]
    print(f"\n{name}: {conditions}")
    for line in [columns, *cells]:
        print("  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    RESULTS.mkdir(exist_ok=True)
    document = {"name": name, "conditions": conditions, "at": time.time(), "machine": _machine(), "rows": list(rows)}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
