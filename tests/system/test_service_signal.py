"""Each service alone, told to end at several moments of its start: it ends at once and leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
from itertools import cycle, product
from pathlib import Path

import pytest
from integration.conftest import Broker
from system.conftest import RANKD
from system.test_up_stop import MARK, marked
from watch import PATIENCE_S, gone_within

SERVICES = ("intake", "prioritizer", "scheduler", "agent")
MOMENTS = ("begun", "imported", "handlers", "later")


@pytest.fixture
def broker(tmp_path):
    server = Broker(tmp_path / "broker")
    server.start()
    yield server
    server.kill()


def reached(process: subprocess.Popen[str], moment: str) -> None:
    """Until the process is about so far, by what the kernel says of it."""
    if moment == "begun":
        return
    status = Path(f"/proc/{process.pid}/status")
    maps = Path(f"/proc/{process.pid}/maps")
    while "uvloop" not in maps.read_text():
        assert not gone_within(process.pid, 0.005)
    if moment == "imported":
        return
    while not catches(status, signal.SIGTERM):
        assert not gone_within(process.pid, 0.005)
    if moment == "later":
        assert not gone_within(process.pid, 0.5)


def catches(status: Path, number: int) -> bool:
    [caught] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught, 16) >> (number - 1) & 1)


CASES = list(
    zip(product(SERVICES, MOMENTS), cycle((signal.SIGTERM, signal.SIGINT)), cycle((True, True, False)), strict=False)
)
"""Every service at every moment; signals and whether there is a broker change in turn."""


@pytest.mark.parametrize(("at", "number", "there"), CASES)
def test_it_ends_and_leaves_nothing(broker, tmp_path, monkeypatch, at, number, there):
    name, moment = at
    monkeypatch.setenv(MARK, str(tmp_path))
    database = str(tmp_path / "rankd.db")
    subprocess.run([*RANKD, "db", "upgrade", "--db", database], check=True, capture_output=True)
    if not there:
        broker.kill()
    place = ["--state", str(tmp_path / "state")] if name == "agent" else ["--db", database]
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *RANKD, name, "--nats", broker.url, *place], stderr=subprocess.DEVNULL
    )
    try:
        reached(process, moment)
        process.send_signal(number)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    before_handlers = {-number, 130, 1}  # as the interpreter itself ends, which can't be told how
    assert process.returncode in ({0} if moment in ("handlers", "later") else {0, *before_handlers})
    left = [pid for pid in marked(str(tmp_path)) if not gone_within(pid, PATIENCE_S)]
    assert [pid for pid in left if Path(f"/proc/{pid}/comm").read_text() != "nats-server\n"] == []
