"""Processes that write, checkpoint and read one database are killed at random; after each kill the file is checked.

``run.py KILLS [SEED] [--standard] [--beside] [--broken]``: ``--standard`` uses the standard library's SQLite,
``--beside`` lets checkpoints go on beside writers whatever the version, ``--broken`` makes writers lose SQLite's
locks, to show that the checks can fail. Exits with 1 when the file is damaged.

All processes are forks of this one, which opens no database itself.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ALL_AT_ONCE = 0.1
"""This share of the kills ends all processes together: the next one to open the file recovers it from the log."""
LONGEST_PAUSE_S = 0.08
PATIENCE_S = 300
LARGE_LOGS = (1, 30, 300, 1_000_000)


class Damaged(Exception):
    """A process found that the file is not what it should be."""


class Processes:
    """The forks, by their name."""

    def __init__(self, work: dict[str, Callable[[], None]]) -> None:
        self._work = work
        self._running: dict[str, int] = {}

    def start(self) -> None:
        """Start what is not running."""
        for name in self._work.keys() - self._running.keys():
            self._running[name] = fork(self._work[name])

    def kill(self, names: list[str]) -> None:
        """End these with SIGKILL.

        Raises:
            Damaged: one had ended by itself.
        """
        for name in names:
            os.kill(self._running[name], signal.SIGKILL)
        for name in names:
            _, status = os.waitpid(self._running.pop(name), 0)
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                raise Damaged(f"{name} ended by itself")

    def names(self) -> list[str]:
        """What runs."""
        return sorted(self._running)

    def end(self) -> None:
        """Kill whatever still runs."""
        for pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def fork(work: Callable[[], None]) -> int:
    """Run this in a process of its own, which ends with 1 if it raises."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is: the fork must not go on as its parent
        traceback.print_exc()
        os._exit(1)


def check(work: Callable[[], None]) -> None:
    """Run a check in a process of its own.

    Raises:
        Damaged: it failed.
    """
    _, status = os.waitpid(fork(work), 0)
    if status:
        raise Damaged("a check after a kill failed")


def torture(site, kills: int, seed: int) -> int:
    """Kill so many times; returns how many commits there are then."""
    import worker

    chance = random.Random(seed)
    large_log = chance.choice(LARGE_LOGS)
    work: dict[str, Callable[[], None]] = {f"writer {n}": lambda n=n: worker.write(site, n) for n in range(3)}
    work["checkpoints"] = lambda: worker.checkpoint_for_ever(site, large_log)
    work["reader"] = lambda: worker.read_for_ever(site)
    check(lambda: worker.create(site.path))
    processes = Processes(work)
    try:
        for number in range(kills):
            large_log = chance.choice(LARGE_LOGS)
            processes.start()
            time.sleep(chance.random() * LONGEST_PAUSE_S)
            names = processes.names()
            processes.kill(names if chance.random() < ALL_AT_ONCE else [chance.choice(names)])
            check(lambda number=number: worker.verify(site, worker.sqlite3 if number % 2 else worker.standard))
    finally:
        processes.end()
    return sum(worker._acknowledged(site, writer) for writer in range(worker.WRITERS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    for option in ("--standard", "--beside", "--broken"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_args()
    if options.standard:
        sys.modules["pysqlite3"] = None  # as where there is no such wheel
    sys.path.insert(0, str(Path(__file__).parent))
    import worker

    from rankd.store.engine.driver import CHECKPOINTS_BESIDE_WRITERS, sqlite3

    beside = options.beside or CHECKPOINTS_BESIDE_WRITERS
    manner = "beside writers" if beside else "under the lock"
    print(
        f"SQLite {sqlite3.sqlite_version}, checkpoints {manner}; {options.kills} kills, seed {options.seed}", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="rankd-torture-") as directory:
        site = worker.Site(Path(directory) / "torture.db", beside, options.broken)
        try:
            commits = torture(site, options.kills, options.seed)
        except Damaged as error:
            print(f"DAMAGED: {error}")
            return 1
    print(f"whole after {options.kills} kills: {commits} acknowledged commits, none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
