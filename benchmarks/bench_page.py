"""The page: its first view with a million pending jobs, what open tabs cost, and whether a browser's memory grows.

The services run as processes, and so does the page. Tabs are plain connections that read their streams; one is a real
Chromium, where there is one. ``--jobs``, ``--tabs`` and ``--seconds`` make it smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from large_site import make_database, write_config
from measure import machine, report, summary
from playwright.sync_api import sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
TICKS = os.sysconf("SC_CLK_TCK")
LOOKS = 20
PROXY = '\n[web]\nproxies = ["127.0.0.1"]\n'
USER = {"X-Remote-User": "u0-0"}


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pids: list[int]) -> float:
    """Resident memory of these processes together."""
    return (
        sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * os.sysconf("SC_PAGE_SIZE") / 1e6
    )


def base_of(directory: Path) -> str:
    """Where the page is served."""
    return (directory / "auth" / "web.link").read_text().partition("/sign-in")[0]


class Tab:
    """One stream; ``updates``: when its events came."""

    def __init__(self, base: str, path: str) -> None:
        self._place, self._path = urlsplit(base), path
        self.updates: list[float] = []

    async def run(self) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection(self._place.hostname, self._place.port)
        lines = [f"GET {self._path} HTTP/1.1", f"Host: {self._place.netloc}", *(f"{n}: {v}" for n, v in USER.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        while line := await reader.readline():
            if line.startswith(b"event: view"):
                self.updates.append(time.perf_counter())


async def answered(base: str, path: str) -> bytes:
    """A whole page."""
    place = urlsplit(base)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {place.netloc}",
        "Connection: close",
        *(f"{n}: {v}" for n, v in USER.items()),
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    return answer


async def page_s(base: str, path: str) -> float:
    """Seconds for a whole page."""
    begun = time.perf_counter()
    await answered(base, path)
    return time.perf_counter() - begun


async def open_tabs(base: str, pid: int, tabs: int, seconds: float) -> dict[str, Any]:
    """What tabs of the queue cost, and how often each gets a view."""
    opened = [Tab(base, "/live/queue") for _ in range(tabs)]
    tasks = [asyncio.get_running_loop().create_task(tab.run()) for tab in opened]
    await asyncio.sleep(3)
    before, begun = cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    cores = (cpu_s(pid) - before) / (time.perf_counter() - begun)
    for task in tasks:
        task.cancel()
    counts = [sum(at >= begun for at in tab.updates) / seconds for tab in opened]
    return {"tabs": tabs, "cores": cores, "updates/s": sum(counts) / len(counts), "resident MB": resident_mb([pid])}


def browser_mb(base: str, seconds: float) -> list[float]:
    """Memory of a browser's scripts at the beginning and the end of some time with an open queue, in MB."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(extra_http_headers=USER).new_page()
        page.goto(f"{base}/queue")
        page.wait_for_selector('#link[data-state="on"]')
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.enable")
        found = []
        for _ in range(2):
            session.send("HeapProfiler.collectGarbage")
            found.append(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
            page.wait_for_timeout(1000 * seconds if len(found) == 1 else 0)
        browser.close()
    return found


def measured(directory: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All figures on one site."""
    config = write_config(directory / "config", period_s=1.0)
    with (config / "rankd.toml").open("a") as file:
        file.write(PROXY)
    asyncio.run(make_database(directory / "rankd.db", config, arguments.jobs))
    with machine("--no-local-agent", "--config", str(config), directory=directory) as up:
        base, pid = base_of(directory), up["pids"]["web"]
        while b"a place in the ranking" not in asyncio.run(answered(base, "/queue")):
            time.sleep(1)
        rows = []
        for path in (
            "/queue",
            "/queue?user=u0-0",
            "/queue?text=step&account=a3",
            "/nodes",
            "/queues",
            "/shares",
            "/me",
        ):
            times = summary([asyncio.run(page_s(base, path)) for _ in range(LOOKS)])
            rows.append({"what": f"{path}, ms", **{name: 1000 * value for name, value in times.items()}})
        report("page_first", f"{arguments.jobs:,} pending jobs, {LOOKS} looks, load {os.getloadavg()[0]:.1f}", rows)
        tabs = [asyncio.run(open_tabs(base, pid, n, arguments.seconds)) for n in (1, arguments.tabs)]
        report("page_tabs", f"{arguments.jobs:,} pending jobs, {arguments.seconds:g} s, a ranking a second", tabs)
        if CHROMIUM.exists():
            begin, end = browser_mb(base, arguments.seconds)
            memory = [{"seconds": arguments.seconds, "first MB": begin, "last MB": end}]
            report("page_browser", "memory of the scripts of one open queue", memory)
    return rows


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000, help="pending jobs (default: 1,000,000)")
    parser.add_argument("--tabs", type=int, default=200, help="open tabs (default: 200)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default: 60)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rankd-bench-page-") as directory:
        measured(Path(directory), arguments)


if __name__ == "__main__":
    main()
