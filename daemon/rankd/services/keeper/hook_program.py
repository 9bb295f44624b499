"""Runs a program of the node's administrator: with this process's own rights, bounded in time and output.

The program gets what sshd demands of the files that it trusts: nobody but root and this process's user can change it.
When it has ended, so have all processes that it started.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import signal
import stat
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from rankd.core.model.hook import failure
from rankd.services.keeper.cgroup_job import GroupError, JobGroup
from rankd.services.keeper.proc import Launch, Session, all_pids
from rankd.services.keeper.process import Ended, Process
from rankd.services.keeper.spawn import Helper, StartFailure
from rankd.services.runtime.clock import Clock

T = TypeVar("T")

log = logging.getLogger("rankd.keeper")

MARK = "RANKD_HOOK_RUN"
"""A variable with a random value, by which processes of the program are found where there are no control groups."""
OUTPUT_BYTES = 16_384
"""The end of the output that is kept. The rest is read and dropped, so that the program is never blocked by it."""
ROOT = 0
ROUNDS = 3
MOST_LINKS = 40
EMPTY_S = 10.0
LOOK_S = 0.02
READ_BYTES = 65_536
UNKILLABLE = "left processes that can't be killed"


class Means(NamedTuple):
    """What it takes to run one. ``group``: a control group of its own, which is made and removed here.

    ``remove_later`` gets the directories of the group that can't be removed yet.
    """

    helper: Helper
    threads: Executor
    clock: Clock
    group: JobGroup | None = None
    remove_later: Callable[[Iterable[str]], None] | None = None


class HookProgram:
    """One run. ``kind`` is its name in messages. :meth:`kill` may be called at any time, by this event loop."""

    def __init__(self, kind: str, program: str, environment: Mapping[str, str], timeout_s: float) -> None:
        self._kind = kind
        self._program = program
        self._mark = secrets.token_hex(16)
        self._environment = {**environment, MARK: self._mark}
        self._timeout_s = timeout_s
        self._process: Process | None = None
        self._how: str | None = None
        self.output = b""

    def kill(self, how: str) -> None:
        """End it at once. ``how`` is the reason, as in ``took longer than 5 s``."""
        self._how = self._how or how
        if self._process is not None:
            self._process.signal_group(signal.SIGKILL)

    async def run(self, means: Means) -> str | None:
        """Run it to its end; returns why it has failed, None if it has succeeded.

        Raises:
            HelperLost: the helper has ended.
        """
        loop = asyncio.get_running_loop()

        def in_thread(action: Callable[[], T]) -> asyncio.Future[T]:
            return loop.run_in_executor(means.threads, action)

        try:
            launch = await in_thread(self._launch)
            process = await _whole(in_thread(lambda: self._fork(launch, means)))
        except (OSError, ValueError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            return self._failure(f"can't be run: {reason}")
        try:
            failed = await self._attend(process, launch, in_thread)
        finally:
            self._process = None
            is_alone = await self._end_others(means)
        return self._failure(UNKILLABLE) if failed is None and not is_alone else failed

    def _launch(self) -> Launch:
        """How to start it.

        Raises:
            ValueError: it is not safe to run. OSError: it can't be looked at.
        """
        return Launch(
            command=[checked(self._program)],
            environment=self._environment,
            cwd="/",
            stdin=None,
            stdout=os.devnull,
            stderr=os.devnull,
            append=True,
            session=Session(name="", input=False),
        )

    def _fork(self, launch: Launch, means: Means) -> Process:
        if means.group is not None:
            try:
                means.group.make()
            except GroupError as error:  # it is found by its mark then
                log.warning("%s", self._failure(f"runs without a control group: {error}"))
        process = Process(means.helper, means.clock)
        joins = means.group.joins() if means.group is not None else []
        process.begin(launch, [file for file in joins if os.path.exists(file)])  # noqa: PTH110 - as in cgroup_file
        return process

    async def _attend(
        self, process: Process, launch: Launch, in_thread: Callable[[Callable[[], Ended]], asyncio.Future[Ended]]
    ) -> str | None:
        self._process = process
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self._timeout_s, self.kill, f"took longer than {self._timeout_s:g} s and was killed")
        streams: list[int] = []
        try:
            if self._how is not None:
                process.signal_group(signal.SIGKILL)
            failed = await process.executed(launch)
            streams, process.streams = process.streams, []
            for descriptor in streams[2:]:
                os.set_blocking(descriptor, False)
                loop.add_reader(descriptor, self._read, descriptor)
            await process.exited()
        except BaseException:
            self._process = None
            await loop.run_in_executor(None, process.abandon)
            raise
        finally:
            limit.cancel()
            self._close(streams)
        self._process = None
        ended = await in_thread(process.reap)
        return self._judge(failed, ended.returncode)

    def _read(self, descriptor: int) -> None:
        with suppress(BlockingIOError):
            part = os.read(descriptor, READ_BYTES)
            if not part:
                asyncio.get_running_loop().remove_reader(descriptor)
            self.output = (self.output + part)[-OUTPUT_BYTES:]

    def _close(self, streams: list[int]) -> None:
        """Read what the program has still written, without waiting for its children, and close."""
        loop = asyncio.get_running_loop()
        for descriptor in streams[2:]:
            loop.remove_reader(descriptor)
            with suppress(OSError):
                if part := os.read(descriptor, READ_BYTES):
                    self.output = (self.output + part)[-OUTPUT_BYTES:]
        for descriptor in streams:
            os.close(descriptor)

    def _judge(self, failed: StartFailure | None, returncode: int) -> str | None:
        if self._how is not None:
            return self._failure(self._how)
        if failed is not None:
            return self._failure(f"can't be run: {failed.message}")
        if returncode < 0:
            return self._failure(f"was ended by signal {-returncode}")
        return self._failure(f"ended with {returncode}") if returncode else None

    def _failure(self, how: str) -> str:
        return failure(self._kind, self._program, how, self.output)

    async def _end_others(self, means: Means) -> bool:
        """Kill the processes that it has left, and remove its group; returns whether none is left."""
        loop, group = asyncio.get_running_loop(), means.group
        deadline = loop.time() + EMPTY_S
        while not (is_alone := await loop.run_in_executor(means.threads, self._is_alone, group)):
            if loop.time() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        if group is not None:
            left = await loop.run_in_executor(means.threads, group.remove)
            if means.remove_later is not None:
                means.remove_later(left)
        return is_alone

    def _is_alone(self, group: JobGroup | None) -> bool:
        """Kill what is left; returns whether there was nothing."""
        if group is not None and group.directories and os.path.isdir(group.directories[0]):  # noqa: PTH112
            if not group.members():
                return True
            group.kill()
            return False
        found = [pid for pid in all_pids() if _is_marked(pid, self._mark)]
        for pid in found:
            with suppress(OSError):
                descriptor = os.pidfd_open(pid)
                try:
                    if _is_marked(pid, self._mark):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                finally:
                    os.close(descriptor)
        return not found


async def _whole(forking: asyncio.Future[Process]) -> Process:
    """The process. If this is cancelled while it is made, it is ended, not lost."""
    try:
        return await asyncio.shield(forking)
    except asyncio.CancelledError:
        process = await forking
        await asyncio.get_running_loop().run_in_executor(None, process.abandon)
        raise


def checked(program: str) -> str:
    """The program's real path, once nobody but root and this process's user can replace it.

    Raises:
        ValueError: somebody else can; the message names what.
        OSError: it does not exist, or can't be looked at.
    """
    crossed = _crossed(program)
    real = crossed[-1]
    if not stat.S_ISREG(real.stat().st_mode):
        raise ValueError(f"{real} is not a file")
    for path in crossed:
        found = path.lstat()
        if found.st_uid not in (os.geteuid(), ROOT):
            raise ValueError(f"{path} belongs to user {found.st_uid}; it must belong to root or the agent's user")
        is_free = stat.S_ISLNK(found.st_mode) or (path != real and found.st_mode & stat.S_ISVTX)
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_free:
            raise ValueError(f"others than its owner can write to {path}; remove that right (chmod go-w)")
    return str(real)


def _crossed(program: str) -> list[Path]:
    """Everything through which a path leads, links too, from the root to the file that is meant.

    Raises:
        OSError: it does not exist, or leads through too many links.
    """
    crossed, left, n_links = [Path("/")], list(Path(program).absolute().parts[1:]), 0
    at = crossed[0]
    while left:
        name = left.pop(0)
        if name == "..":
            at = at.parent
            continue
        path = at / name
        crossed.append(path)
        if not path.is_symlink():
            path.lstat()
            at = path
            continue
        n_links += 1
        if n_links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), program)
        target = path.readlink()
        at = Path("/") if target.is_absolute() else at
        left = [part for part in target.parts if part != "/"] + left
    return [path for path in crossed if path != at] + [at]


def _is_marked(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
