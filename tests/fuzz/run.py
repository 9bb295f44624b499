"""Hostile inputs for everything that reads input from outside, and for the requests and streams of a running site.

``python tests/fuzz/run.py INPUTS SEED`` prints a JSON report; its exit status says whether all bounds held:

- nothing is raised but the errors that are declared for the reader,
- no input takes more than :data:`MOST_S` of processor time,
- the process grows by at most :data:`MOST_GROWTH_BYTES`, and a running site by at most that per service,
- a running site answers every request, with no ``internal_error``; no service ends, hangs or logs a traceback.

The same numbers make the same inputs; only the order in which a running site answers differs. An input that breaks a
bound is printed, and can be made again with its number.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.hostile import Hostile
from fuzz.target import Target, targets

MOST_S = 1.0
MOST_GROWTH_BYTES = 64 * 2**20
WARM_UP = 2_000
"""Inputs after which the growth of memory is counted: imports, caches and tables are there by then."""
LIVE_SHARE = 10
"""Every one in so many inputs goes to a running site."""
MOST_FINDINGS = 20


class Finding(NamedTuple):
    """An input that broke a bound. ``number``: of the input, with the run's seed."""

    target: str
    number: int
    what: str
    given: str


class Run:
    """Gives inputs to targets, and counts how they end."""

    def __init__(self, seed: int, found: dict[str, Target]) -> None:
        self.seed = seed
        self.outcomes: dict[str, Counter[str]] = {name: Counter() for name in found}
        self.slowest_s = dict.fromkeys(found, 0.0)
        self.findings: list[Finding] = []
        self._targets = found
        names, weights = list(found), [target.weight for target in found.values()]
        self._names = random.Random(seed).choices(names, weights, k=10_000)

    def one(self, number: int) -> None:
        """The input with this number."""
        name = self._names[number % len(self._names)]
        target = self._targets[name]
        given = target.make(Hostile(f"{self.seed} {number}"))
        begin, outcome = time.process_time(), "read"
        try:
            target.read(given)
        except target.may_raise as error:
            outcome = getattr(error, "code", type(error).__name__)
        except Exception:  # noqa: BLE001 - any other error is what this looks for
            outcome = "bug"
            self._find(name, number, traceback.format_exc(limit=-4), given)
        took_s = time.process_time() - begin
        self.outcomes[name][outcome] += 1
        self.slowest_s[name] = max(self.slowest_s[name], took_s)
        if took_s > MOST_S:
            self._find(name, number, f"it took {took_s:.2f} s of processor time", given)

    def _find(self, name: str, number: int, what: str, given: object) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(name, number, what, f"{given!r:.2000}"))

    def many(self, number: int) -> int:
        """All inputs up to this number; returns by how many bytes the process has grown after its warm-up."""
        grown_from = resident_bytes()
        for at in range(number):
            self.one(at)
            if at == WARM_UP:
                grown_from = resident_bytes()
        grown = resident_bytes() - grown_from
        if grown > MOST_GROWTH_BYTES:
            self._find("all", number, f"the process has grown by {grown} bytes", "")
        return grown


def resident_bytes(pid: int | None = None) -> int:
    """The memory of a process at present."""
    pages = Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def fuzz(number: int, seed: int) -> dict[str, object]:
    """Give inputs to all readers; the report."""
    begin = time.monotonic()
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(prefix="rankd-fuzz-") as directory:
        run = Run(seed, targets(Path(directory), loop))
        grown = run.many(number)
    loop.close()
    return {
        "inputs": sum(found.total() for found in run.outcomes.values()),
        "seed": seed,
        "took_s": round(time.monotonic() - begin, 1),
        "grown_bytes": grown,
        "targets": {
            name: {
                "inputs": found.total(),
                "slowest_ms": round(1000 * run.slowest_s[name], 1),
                "outcomes": dict(found.most_common(6)),
            }
            for name, found in run.outcomes.items()
        },
        "findings": [finding._asdict() for finding in run.findings],
    }


def main(words: list[str]) -> int:
    """Run both parts and print the report."""
    from fuzz.live import fuzz_site

    number, seed = int(words[0]), int(words[1])
    live = number // LIVE_SHARE
    os.nice(10)
    report = fuzz(number - live, seed)
    report["site"] = asyncio.run(fuzz_site(live, seed))
    findings = [*report["findings"], *report["site"]["findings"]]
    print(json.dumps(report, indent=1, ensure_ascii=True))
    print(f"{number} inputs, seed {seed}: {len(findings) or 'no'} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
