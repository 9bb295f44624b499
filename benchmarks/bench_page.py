"""The page: its first view with a million pending jobs, what open tabs cost, and whether a browser's memory grows.

The services run as processes, and so does the page. Tabs are plain connections that read their streams; one is a real
Chromium, where there is one. It takes a quarter of an hour; ``--jobs``, ``--seconds`` and ``--browser`` shorten it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from large_site import make_database, write_config
from measure import connected, machine, report, summary
from playwright.sync_api import sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
TICKS = os.sysconf("SC_CLK_TCK")
LOOKS, UPDATES = 20, 20
PATHS = ("/queue", "/queue?user=u0-0", "/queue?text=step&account=a3", "/nodes", "/queues", "/shares", "/me", "/whatif")
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
        self._seen, self._news = b"", asyncio.Event()

    async def until(self, text: str) -> float:
        """When (performance counter) the newest view has this text."""
        while text.encode() not in self._seen:
            self._news.clear()
            await self._news.wait()
        return time.perf_counter()

    async def run(self) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection(self._place.hostname, self._place.port)
        lines = [f"GET {self._path} HTTP/1.1", f"Host: {self._place.netloc}", *(f"{n}: {v}" for n, v in USER.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        while line := await reader.readline():
            if line.startswith(b"event: view"):
                self.updates.append(time.perf_counter())
            elif b"bench-" in line:
                self._seen = line
                self._news.set()


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


async def update_s(base: str, up: dict[str, Any]) -> list[float]:
    """Seconds from sending a submission over NATS until an open tab has the new job, several times."""
    client, found = await connected(up), list[float]()
    tab = Tab(base, "/live/me")
    task = asyncio.get_running_loop().create_task(tab.run())
    await asyncio.sleep(3)
    for number in range(UPDATES):
        name = f"bench-{number}-end"
        begun = time.perf_counter()
        job = {"command": ["true"], "name": name, "held": True, "queue": "root.q0.q0.q0"}
        subject = f"rankd.v1.user.{USER['X-Remote-User']}.job.submit"
        reply = await client.request(subject, json.dumps(job).encode(), timeout=60)
        assert b'"id"' in reply.data, reply.data
        found.append(await tab.until(name) - begun)
    task.cancel()
    await client.close()
    return found


def what_if(directory: Path) -> dict[str, Any]:
    """What one answer of What if costs: the intake runs this command, one at a time for all ordinary users."""
    words = ["whatif", "--json", "--summary", f"--db={directory / 'rankd.db'}", "--weights", "age=5000"]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "rankd", *words], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - begun, "processor s": after.ru_utime - before.ru_utime,
        "most MB": after.ru_maxrss / 1e3, "answer kB": len(done.stdout) / 1e3,
        "moved": json.loads(done.stdout)["moved"],
    }  # fmt: skip


def is_ranked(base: str) -> bool:
    """Whether the page knows the proxy, and shows a ranking."""
    try:
        return b"a place in the ranking" in asyncio.run(answered(base, "/queue"))
    except AssertionError:
        return False


@contextmanager
def site(jobs: int) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """A ranked site with pending jobs: its directory, where its page is, and its up.json."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-page-") as text:
        directory = Path(text)
        config = write_config(directory / "config", period_s=1.0)
        with (config / "rankd.toml").open("a") as file:
            file.write(PROXY)
        asyncio.run(make_database(directory / "rankd.db", config, jobs))
        with machine("--no-local-agent", "--config", str(config), directory=directory) as up:
            base = base_of(directory)
            while not is_ranked(base):
                time.sleep(1)
            yield directory, base, up


def looks(base: str, jobs: int) -> None:
    """How long whole pages take."""
    rows = []
    for path in PATHS:
        times = summary([asyncio.run(page_s(base, path)) for _ in range(LOOKS)])
        rows.append({"what": f"{path}, ms", **{name: 1000 * value for name, value in times.items()}})
    report("page_first", f"{jobs:,} pending jobs, {LOOKS} looks, load {os.getloadavg()[0]:.1f}", rows)


def tabs(base: str, up: dict[str, Any], jobs: int, arguments: argparse.Namespace) -> None:
    """What open tabs cost."""
    rows = [
        asyncio.run(open_tabs(base, up["pids"]["web"], n, arguments.seconds)) | {"load": os.getloadavg()[0]}
        for n in (1, arguments.tabs)
    ]
    report(f"page_tabs_{jobs}", f"{jobs:,} pending jobs, {arguments.seconds:g} s, a ranking a second", rows)


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--jobs", type=int, default=1_000_000, help="pending jobs of the large site (default: 1,000,000)"
    )
    parser.add_argument("--few", type=int, default=10_000, help="pending jobs of the small site (default: 10,000)")
    parser.add_argument("--tabs", type=int, default=200, help="open tabs (default: 200)")
    parser.add_argument("--seconds", type=float, default=30.0, help="that tabs are open (default: 30)")
    parser.add_argument("--browser", type=float, default=600.0, help="seconds of a browser's open tab (default: 600)")
    arguments = parser.parse_args()
    with site(arguments.jobs) as (directory, base, up):
        looks(base, arguments.jobs)
        tabs(base, up, arguments.jobs, arguments)
        report("page_what_if", f"{arguments.jobs:,} pending jobs, other weights", [what_if(directory)])
    with site(arguments.few) as (_, base, up):
        tabs(base, up, arguments.few, arguments)
        updates = summary([1000 * value for value in asyncio.run(update_s(base, up))])
        report("page_update", f"{arguments.few:,} pending jobs: submission until a tab has it, ms", [updates])
        if CHROMIUM.exists():
            begin, end = browser_mb(base, arguments.browser)
            memory = [{"seconds": arguments.browser, "first MB": begin, "last MB": end}]
            report("page_browser", "memory of the scripts of one open queue", memory)


if __name__ == "__main__":
    main()
