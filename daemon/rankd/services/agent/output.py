"""Deleting old output files that jobs wrote to the agent's output directory by the default pattern.

Users own their directories below it and may change them at any time, even while the agent reads them. So this module
never follows a path. It opens a directory without following a link, and skips mount points. It reads and removes the
entries relative to that descriptor (``fstatat``, ``unlinkat``), again without following links. ``unlinkat`` removes a
name of that one directory, which its owner could remove as well. So an agent that is root need not take the user's
identity: whatever replaces a file meanwhile, nothing outside the directory is removed, and a hard link loses only
this name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from rankd.bus.liveness import Loops
from rankd.core.model.job_environment import job_of_output
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import is_set

log = logging.getLogger("rankd.agent")

LOOP = "old outputs"
BOUND_S = 120.0
EVERY_S = 3_600.0
LEAST_AGE_S = 3_600.0
"""Files that changed more recently than this many seconds ago stay, whatever the intake's answer says."""
PART = 500
"""A thread ends after this many entries, so that other work of the agent gets its turn."""
PAUSE_S = 0.05
MOST_LOOKED = 10_000_000
"""Entries of one directory per sweep. A user who adds names faster than they are read cannot delay the others."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OldOutputs:
    """Deletes old files in a node's output directory ``root``. ``running`` gives the jobs whose files always stay.

    ``has_users_rights``: jobs run as their users. Otherwise, the users' directories belong to the agent's own user.
    """

    def __init__(self, root: Path, running: Callable[[], Collection[int]], *, has_users_rights: bool = True) -> None:
        self._root = Path(os.path.realpath(root))  # unlike resolve(), it accepts a loop of links
        self._has_users_rights = has_users_rights
        self._running = running
        self._keep_s: float | None = None
        self._changed = asyncio.Event()

    @property
    def keep_s(self) -> float | None:
        """Seconds since the last change after which a file is deleted; None: never (also while it is not known)."""
        return self._keep_s

    @keep_s.setter
    def keep_s(self, seconds: float | None) -> None:
        if seconds != self._keep_s:
            self._keep_s = seconds
            self._changed.set()

    async def run(self, loops: Loops, clock: Clock) -> None:
        """Sweep each hour, and whenever :attr:`keep_s` changes, until cancelled."""
        loop = loops.add(LOOP, BOUND_S)
        while True:
            self._changed.clear()
            await self.run_once(clock(), loop.beat)
            loop.beat(EVERY_S)
            await is_set(self._changed, EVERY_S)

    async def run_once(self, now: float, beat: Callable[[], object] = lambda: None) -> int:
        """Sweep once through all directories, a part at a time; returns how many files were deleted."""
        if self._keep_s is None:
            return 0
        sweep = Sweep(self._root, now - max(self._keep_s, LEAST_AGE_S), has_users_rights=self._has_users_rights)
        gone = 0
        while sweep.more:
            sweep.running = frozenset(self._running())
            gone += await asyncio.to_thread(sweep.part)
            beat()
            await asyncio.sleep(PAUSE_S)
        if gone:
            log.info("deleted %d old output files in %s", gone, self._root)
        if sweep.failures:
            log.warning("old output files stay in %d places, the first: %s", sweep.failures, sweep.first_failure)
        return gone


class Sweep:
    """One pass over the agent's directory and those of its users. Files that changed at ``before`` or later stay."""

    def __init__(self, root: Path, before: float, *, has_users_rights: bool = True) -> None:
        self.running: Collection[int] = ()
        self.more = True
        self.failures = 0
        self.first_failure = ""
        self._before = before
        self._has_users_rights = has_users_rights
        self._me = os.geteuid()
        self._root = str(root)
        self._entries = self._agents(self._root)

    def part(self) -> int:
        """Look at the next entries; returns how many files were deleted."""
        looked: list[bool] = []
        try:
            looked.extend(islice(self._entries, PART))
        except OSError as error:
            self._fail(self._root, error)
        self.more = len(looked) == PART
        return sum(looked)

    def _agents(self, root: str) -> Iterator[bool]:
        """Yield for each entry whether it was deleted: files of the agent itself, then the directories of its users."""
        with self._opened(root, root, None) as top:
            if top is None:
                return
            for entry, mounts in self._listed(top, root):
                path = f"{root}/{entry.name}"
                if path in mounts:
                    yield False
                elif entry.is_dir(follow_symlinks=False):
                    yield False
                    yield from self._users(entry.name, path, top)
                else:
                    yield self._deleted(entry.name, path, top, self._me)

    def _users(self, name: str, path: str, top: int) -> Iterator[bool]:
        with self._opened(name, path, top) as directory:
            owner = self._me if directory is None else os.fstat(directory).st_uid
            if directory is None or (owner == self._me) is self._has_users_rights:
                return  # the directories of users belong to them if jobs have their rights, and else to the agent
            for entry, mounts in self._listed(directory, path):
                where = f"{path}/{entry.name}"
                yield where not in mounts and self._deleted(entry.name, where, directory, owner)

    @contextmanager
    def _opened(self, name: str, path: str, parent: int | None) -> Iterator[int | None]:
        try:
            directory = os.open(name, _OPEN, dir_fd=parent)
        except FileNotFoundError:
            directory = None
        except OSError as error:
            self._fail(path, error)
            directory = None
        try:
            yield directory
        finally:
            if directory is not None:
                os.close(directory)

    def _listed(self, directory: int, path: str) -> Iterator[tuple[os.DirEntry[str], frozenset[str]]]:
        """The entries in directory order, each with the mount points below the directory."""
        mounts = mount_points(path)
        try:
            with os.scandir(directory) as entries:
                for entry in islice(entries, MOST_LOOKED):
                    yield entry, mounts
        except OSError as error:
            self._fail(path, error)

    def _deleted(self, name: str, path: str, directory: int, owner: int) -> bool:
        """Delete a name if it is an old output file of this owner whose job does not run."""
        job = job_of_output(name)
        if job is None or job in self.running:
            return False
        try:
            # looked at just before the deletion: another run of the job opens the file and so changes its time
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != owner or found.st_mtime >= self._before:
                return False
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._fail(path, error)
            return False
        return True

    def _fail(self, path: str, error: OSError) -> None:
        self.failures += 1
        self.first_failure = self.first_failure or f"{path}: {error.strerror}"


def mount_points(directory: str, table: Path = Path("/proc/self/mountinfo")) -> frozenset[str]:
    """The mount points below a directory. A file system that a user mounted could block this process for ever."""
    fields = (line.split(" ", 5)[4] for line in os.fsdecode(table.read_bytes()).split("\n") if line)
    paths = (re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path) for path in fields)
    return frozenset(path for path in paths if path.startswith(f"{directory}/"))
