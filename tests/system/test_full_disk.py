"""A full disk costs nothing but waiting: on a real, small file system."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.client import connected
from system.conftest import Machine
from watch import PATIENCE_S

MIB = 2**20
JOBS = len(os.sched_getaffinity(0))


@contextmanager
def mounted(directory: Path, size_mib: int) -> Iterator[Path]:
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


class Filler:
    """Takes whatever is free, and gives it back."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "filler"

    def fill(self) -> None:
        with self._path.open("ab", buffering=0) as file:
            for size in (MIB, 4096, 1):
                with until_full():
                    while True:
                        file.write(b"x" * size)

    def free(self) -> None:
        self._path.unlink()


@contextmanager
def until_full() -> Iterator[None]:
    with pytest.raises(OSError, match="No space left"):
        yield


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.1)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_a_full_disk_costs_nothing_but_waiting(tmp_path):
    flag, notes = tmp_path / "go", tmp_path / "notes"
    waits = f"while ! test -e {flag}; do sleep 0.1; done"
    script = f"echo start $RANKD_JOB_ID >> {notes}; {waits}; echo end $RANKD_JOB_ID >> {notes}"
    with mounted(tmp_path / "disk", 96) as disk:
        machine, filler = Machine(disk / "state"), Filler(disk)
        try:
            machine.start("--name", "here")
            for _ in range(JOBS):
                machine.rankd("submit", "--", "sh", "-c", script)
            await until(lambda: len(lines(notes)) == JOBS)
            await until(lambda: machine.rows("SELECT count(*) AS n FROM job WHERE state = 'running'") == [{"n": JOBS}])
            pids = machine.up["pids"]
            filler.fill()
            submitted, said = JOBS, ""
            while "could not be written" not in said:
                filler.fill()
                done = submit(machine, "true")
                submitted += done.returncode == 0
                said = done.stderr
                assert "Traceback" not in said
                assert done.returncode in (0, 3), said
            flag.touch()
            await until(lambda: len(lines(notes)) == 2 * JOBS)
            for _ in range(20):  # everybody meets the full disk
                filler.fill()
                await asyncio.sleep(0.2)
            alive = {name: pid for name, pid in pids.items() if Path(f"/proc/{pid}").exists()}
            assert alive == pids
            filler.free()
            completed = "SELECT count(*) AS n FROM job WHERE state = 'completed'"
            await until(lambda: machine.rows(completed) == [{"n": submitted}])
            machine.rankd("submit", "--wait", "--", "true")
            ends = machine.rows(
                "SELECT job_id, count(*) AS n FROM job_event WHERE state IN ('completed', 'failed', 'node_lost')"
                " GROUP BY job_id"
            )
            assert {row["n"] for row in ends} == {1}
            assert len(ends) == submitted + 1
            assert machine.rows("SELECT sum(requeues) AS n FROM job") == [{"n": 0}]
            assert sorted(lines(notes)) == [f"{word} {job}" for word in ("end", "start") for job in range(1, JOBS + 1)]
            services = {name: pid for name, pid in pids.items() if name != "nats"}  # a broker is started again
            assert {name: machine.up["pids"][name] for name in services} == services
            await until(lambda: "ready" in health(machine, "intake") and "not" not in health(machine, "intake"))
        finally:
            machine.end()


def submit(machine: Machine, *command: str) -> subprocess.CompletedProcess[str]:
    return rankd(machine, "submit", "--retry-for", "3", "--", *command)


def health(machine: Machine, service: str) -> str:
    done = rankd(machine, "health", service)
    return (done.stdout + done.stderr).split("(")[0]


def rankd(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    from system.conftest import RANKD

    place = {"RANKD_DIR": str(machine.directory)}
    return subprocess.run(
        [*RANKD, *words],
        capture_output=True,
        check=False,
        text=True,
        env=os.environ | place,
        cwd=machine.directory.parent,
    )


async def test_streams_take_a_part_of_what_is_free(tmp_path):
    with mounted(tmp_path / "disk", 96) as disk:
        machine = Machine(disk / "state")
        try:
            machine.start("--no-local-agent")
            async with connected(machine.up["nats"], machine.services) as client:
                streams = await client.connection.jetstream().streams_info()
            sizes = [stream.config.max_bytes for stream in streams if stream.config.max_bytes > 0]
            assert len(sizes) >= 3
            assert sum(sizes) <= 24 * MIB
            machine.stop()
            machine.start("--no-local-agent")  # with less free than at first, the streams stay as they are
        finally:
            machine.end()


def test_a_disk_that_is_too_full_to_begin_is_refused_with_the_figures(tmp_path):
    with mounted(tmp_path / "disk", 40) as disk:
        said = Machine(disk / "state").rankd_fails("up", "--dir", str(disk / "state"), status=3)
    assert "39 MiB free" in said or "40 MiB free" in said
    assert "needs 64 MiB" in said
