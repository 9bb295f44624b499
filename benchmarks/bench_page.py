"""The page: its first view with a million pending jobs, what open tabs cost, and whether a browser's memory grows.

The services run as processes, and so does the page. Tabs are plain connections that read their streams; one is a real
Chromium, where there is one. It takes a quarter of an hour; ``--jobs``, ``--seconds`` and ``--browser`` shorten it.

``--long`` measures one thing only: for ten minutes (``--browser``), all tabs and the browser follow the queue of the
large site, and each minute has a line. ``--bus`` measures a page without a database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


class Browser:
    """A Chromium that shows the queue. ``pid``: of the process that renders it."""

    def __init__(self, chromium: Any, base: str) -> None:
        self._browser = chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        self._page = self._browser.new_context(extra_http_headers=USER).new_page()
        self._page.goto(f"{base}/queue", timeout=120_000)
        self._page.wait_for_selector('#link[data-state="on"]', timeout=120_000)
        self._session = self._page.context.new_cdp_session(self._page)
        self._session.send("HeapProfiler.enable")
        self._page.evaluate(_COUNT)
        self.pid = self._renderer()

    def _renderer(self) -> int:
        found = self._browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        pids = [int(one["id"]) for one in found if one["type"] == "renderer"]
        return max(pids, key=lambda pid: resident_mb([pid]))

    def heap_mb(self) -> float:
        """What the scripts of the page hold, after a collection."""
        self._session.send("HeapProfiler.collectGarbage")
        return float(self._session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    def updates(self) -> int:
        """How often the view was replaced since the last question."""
        return int(self._page.evaluate("() => { const n = window.swaps; window.swaps = 0; return n; }"))

    def nodes(self) -> int:
        """Elements of the page."""
        return int(self._page.evaluate("() => document.querySelectorAll('*').length"))

    def wait(self, seconds: float) -> None:
        """Let the page run."""
        self._page.wait_for_timeout(1000 * seconds)

    def close(self) -> None:
        """End it."""
        self._browser.close()


_COUNT = (
    """() => { window.swaps = 0; document.body.addEventListener('htmx:sseMessage', () => { window.swaps += 1; }); }"""
)


def long_run(base: str, up: dict[str, Any], arguments: argparse.Namespace) -> None:
    """All tabs and a browser on one queue, with a line for each minute, and one for the whole time."""
    pids = {name: up["pids"][name] for name in ("web", "intake")}
    opened = [Tab(base, "/live/queue") for _ in range(arguments.tabs)]
    stop = threading.Event()
    reading = threading.Thread(target=asyncio.run, args=(_follow(opened, stop, up, arguments.changes),))
    reading.start()
    rows = list[dict[str, Any]]()
    try:
        with sync_playwright() as playwright:
            browser = Browser(playwright.chromium, base)
            browser.wait(arguments.settle)
            browser.updates()
            left, minute = arguments.browser, 0
            rows.append({"minute": minute, **_memory(browser, pids)})
            print(rows[-1], flush=True)
            while left > 0:
                step = min(60.0, left)
                rows.append(_minute(minute := minute + 1, step, opened, browser, pids))
                print(rows[-1], flush=True)
                left -= step
            browser.close()
    finally:
        stop.set()
        reading.join()
    name = f"page_long_{arguments.jobs}{'_bus' if arguments.bus else ''}"
    rows = [rows[0] | dict.fromkeys(rows[-1].keys() - rows[0].keys(), 0.0), *rows[1:]]
    words = f"{arguments.jobs:,} pending jobs, {arguments.tabs} tabs and a browser, a ranking a second"
    words += f", {arguments.changes:g} submissions a second" if arguments.changes else ""
    report(name, words + (", a page without a database" if arguments.bus else ""), rows)


async def _follow(opened: list[Tab], stop: threading.Event, up: dict[str, Any], changes: float) -> None:
    tasks = [asyncio.get_running_loop().create_task(tab.run()) for tab in opened]
    if changes:
        tasks.append(asyncio.get_running_loop().create_task(_submit(up, changes)))
    await asyncio.to_thread(stop.wait)
    for task in tasks:
        task.cancel()


async def _submit(up: dict[str, Any], changes: float) -> None:
    """Submit this number of held jobs a second. Every tab shows each of them."""
    client = await connected(up)
    job = json.dumps({"command": ["true"], "held": True, "queue": "root.q0.q0.q0"}).encode()
    while True:
        await client.request(f"rankd.v1.user.{USER['X-Remote-User']}.job.submit", job, timeout=60)
        await asyncio.sleep(1 / changes)


def _memory(browser: Browser, pids: dict[str, int]) -> dict[str, Any]:
    return {
        "heap MB": browser.heap_mb(), "renderer MB": resident_mb([browser.pid]), "elements": browser.nodes(),
        "page MB": resident_mb([pids["web"]]),
    }  # fmt: skip


def _minute(minute: int, step: float, opened: list[Tab], browser: Browser, pids: dict[str, int]) -> dict[str, Any]:
    """What one minute has cost, and the memory at its end."""
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    begun = time.perf_counter()
    browser.wait(step)
    took = time.perf_counter() - begun
    cores = {f"{name} cores": (cpu_s(pid) - before[name]) / took for name, pid in pids.items()}
    counts = [sum(at >= begun for at in tab.updates) / took for tab in opened]
    return {
        "minute": minute, **_memory(browser, pids), "updates/s": sum(counts) / len(counts), "least/s": min(counts),
        "most/s": max(counts), "browser's/s": browser.updates() / took, **cores, "load": os.getloadavg()[0],
    }  # fmt: skip


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
def far_page(up: dict[str, Any], directory: Path) -> Iterator[tuple[str, int]]:
    """A page without a database: where it is, and its process."""
    state, auth = directory / "far", directory / "auth"
    words = ["web", "--nats", up["nats"], "--state", str(state)]
    words += ["--creds", str(auth / "web.creds"), "--gateway-creds", str(auth / "web-gateway.creds")]
    process = subprocess.Popen([sys.executable, "-m", "rankd", *words], env={**os.environ, "RANKD_DB": ""})
    try:
        while not (state / "web.link").exists():
            time.sleep(0.1)
        yield (state / "web.link").read_text().partition("/sign-in")[0], process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def site(jobs: int, *, over_bus: bool = False) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """A ranked site with pending jobs: its directory, where its page is, and its up.json.

    ``over_bus``: the page is another one, which has no database.
    """
    with tempfile.TemporaryDirectory(prefix="rankd-bench-page-") as text:
        directory = Path(text)
        config = write_config(directory / "config", period_s=1.0)
        with (config / "rankd.toml").open("a") as file:
            file.write(PROXY)
        asyncio.run(make_database(directory / "rankd.db", config, jobs))
        with ExitStack() as stack:
            up = stack.enter_context(machine("--no-local-agent", "--config", str(config), directory=directory))
            base = base_of(directory)
            if over_bus:
                base, up["pids"]["web"] = stack.enter_context(far_page(up, directory))
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
    parser.add_argument("--long", action="store_true", help="tabs and a browser on the large site, minute by minute")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds before the first minute (default: 20)")
    parser.add_argument("--changes", type=float, default=0.0, help="with --long: submissions a second (default: 0)")
    parser.add_argument("--bus", action="store_true", help="the page has no database, and asks over the bus")
    arguments = parser.parse_args()
    if arguments.long:
        with site(arguments.jobs, over_bus=arguments.bus) as (_, base, up):
            long_run(base, up, arguments)
        return
    with site(arguments.jobs, over_bus=arguments.bus) as (directory, base, up):
        looks(base, arguments.jobs)
        tabs(base, up, arguments.jobs, arguments)
        report("page_what_if", f"{arguments.jobs:,} pending jobs, other weights", [what_if(directory)])
    with site(arguments.few, over_bus=arguments.bus) as (_, base, up):
        tabs(base, up, arguments.few, arguments)
        updates = summary([1000 * value for value in asyncio.run(update_s(base, up))])
        report("page_update", f"{arguments.few:,} pending jobs: submission until a tab has it, ms", [updates])
        if CHROMIUM.exists():
            begin, end = browser_mb(base, arguments.browser)
            memory = [{"seconds": arguments.browser, "first MB": begin, "last MB": end}]
            report("page_browser", "memory of the scripts of one open queue", memory)


if __name__ == "__main__":
    main()
