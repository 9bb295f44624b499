"""One job's process: files, spawn, signals, end. Blocks briefly; the keeper calls it in threads.

``subprocess`` uses vfork here where the job is not another user's (no ``preexec_fn``), measured several times faster
than uvloop's spawn. The job is a session of its own, so one signal reaches all of its processes. Until
:meth:`Process.reap` the leader stays a zombie, and neither its pid nor its group's id can be anybody else's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.services.agent_cgroup import JobGroup, Limits
from rankd.services.agent_state import ProcessRecord

NOT_FOUND = 127
NOT_EXECUTABLE = 126
NAME_SHOWN = 200
USERS_UMASK = 0o022

_START_TIME_FIELD = 19  # field 22 of proc(5)'s stat, counted after the name, which may hold anything
_GROUP_FIELD = 2


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A user to run as, with all groups that he is in."""

    name: str
    uid: int
    gid: int
    groups: list[int]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to start a command. Paths are absolute; ``stdin`` None is /dev/null.

    ``identity`` None: as the agent's own user.
    """

    command: list[str]
    environment: dict[str, str]
    cwd: str
    stdin: str | None
    stdout: str
    stderr: str
    append: bool
    identity: Identity | None = None
    limits: Limits | None = None


class StartFailure(NamedTuple):
    """A command that could not be started; the status is the one that a shell would give."""

    exit_status: int
    message: str


class Ended(NamedTuple):
    """How a process ended. ``max_rss_bytes`` is at least the keeper's own size: the kernel counts from the spawn."""

    returncode: int
    max_rss_bytes: int
    cpu_s: float


class Process:
    """A running command, leader of its own session and process group."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.descriptor = os.pidfd_open(popen.pid)
        # a process that has ended already has no start time, and nobody needs it
        self.record = ProcessRecord(pid=popen.pid, start_time=start_time_of(popen.pid) or 0, started_at=time.time())

    async def exited(self) -> None:
        """Wait until the leader has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.descriptor, _fulfil, ended)
        try:
            await ended
        finally:
            loop.remove_reader(self.descriptor)

    def signal_group(self, number: int) -> None:
        """Send a signal to all of the job's processes; nothing once it was reaped."""
        if self._popen.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def has_company(self) -> bool:
        """Whether processes of its group other than the leader live. Looks through /proc."""
        return any(
            int(fields[_GROUP_FIELD]) == self.pid and fields[0] not in "ZX"
            for pid in all_pids()
            if pid != self.pid and (fields := _stat(pid))
        )

    def reap(self) -> Ended:
        """Kill what is left of the group, and read how the leader, which has ended, did so."""
        self.signal_group(signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.descriptor)
        return Ended(self._popen.returncode, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def launch(plan: Launch, group: JobGroup) -> Process | StartFailure:
    """Start a command in a control group; parent directories of its output files are made.

    Directories are entered and files opened as the job's user, who may do what root may not (and the reverse). With a
    user's identity, one thread at a time: rights and the working directory are the whole process's.
    """
    with ExitStack() as files:
        try:
            group.make()
            with _acting_as(plan.identity):
                _enter(plan, files)
                stdin, stdout, stderr = _open_files(plan, files)
            with group.spawning():
                started = _spawn(plan, stdin, stdout, stderr)
        except OSError as error:
            return StartFailure(NOT_EXECUTABLE, _why(plan, error))
    if isinstance(started, Process):
        group.take(started.pid)
    return started


def _enter(plan: Launch, files: ExitStack) -> None:
    """See that the working directory is there; with a user's rights, go there, since root may not on every server."""
    if plan.identity:
        files.callback(os.chdir, "/")
        os.chdir(plan.cwd)
    elif not Path(plan.cwd).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.cwd)


def _why(plan: Launch, error: OSError) -> str:
    """In words that say what to do."""
    if error.filename == plan.cwd:
        does_not = "does not exist on this node" if isinstance(error, FileNotFoundError) else f"is {error.strerror}"
        return f"the working directory {plan.cwd} {does_not}; create it, or give another cwd"
    return f"can't open {error.filename}: {error.strerror}; check the path"


@contextmanager
def _acting_as(identity: Identity | None) -> Iterator[None]:
    """With a user's rights."""
    if identity is None:
        yield
        return
    own_groups, own_gid, own_uid = os.getgroups(), os.getegid(), os.geteuid()
    try:
        os.setgroups(identity.groups)
        os.setegid(identity.gid)
        os.seteuid(identity.uid)
        yield
    finally:
        os.seteuid(own_uid)
        os.setegid(own_gid)
        os.setgroups(own_groups)


def _spawn(plan: Launch, stdin: int, stdout: int, stderr: int) -> Process | StartFailure:
    name = plan.command[0][:NAME_SHOWN] if plan.command else ""
    user = plan.identity
    try:
        popen = subprocess.Popen(  # noqa: S603 - running users' commands is what an agent is for
            plan.command,
            env=plan.environment,
            cwd=None if user else plan.cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=user.groups if user else None,
            umask=USERS_UMASK if user else -1,
        )
    except (FileNotFoundError, IndexError):
        message = f"command '{name}' not found; give its full path, install it on this node, or check its first line"
        return StartFailure(NOT_FOUND, message)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"command '{name}' can't be executed: {reason}; is it a program with execute permission?"
        return StartFailure(NOT_EXECUTABLE, message)
    return _watched(popen)


def _watched(popen: subprocess.Popen[bytes]) -> Process | StartFailure:
    """Nothing runs that can't be watched."""
    try:
        return Process(popen)
    except OSError as error:
        popen.kill()
        popen.wait()
        return StartFailure(NOT_EXECUTABLE, f"can't watch the process: {error.strerror}; raise the agent's ulimit -n")


def _open_files(plan: Launch, files: ExitStack) -> tuple[int, int, int]:
    write = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if plan.append else os.O_TRUNC)

    def written(path: str) -> int:
        try:
            return opened(path, write)
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return opened(path, write)

    def opened(path: str, flags: int) -> int:
        # a pipe whose other end nobody has opened must not hold up everybody's jobs
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        files.callback(os.close, descriptor)
        os.set_blocking(descriptor, True)
        return descriptor

    stdin = opened(plan.stdin or os.devnull, os.O_RDONLY)
    stdout = written(plan.stdout)
    return stdin, stdout, stdout if plan.stderr == plan.stdout else written(plan.stderr)


def all_pids() -> list[int]:
    """Every process that this one can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names are wanted


def start_time_of(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None if it does not live (a zombie does not)."""
    fields = _stat(pid)
    return int(fields[_START_TIME_FIELD]) if fields and fields[0] not in "ZX" else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()
