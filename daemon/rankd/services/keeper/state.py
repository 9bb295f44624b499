"""The agent's memory on disk: one directory per allocation, made before any process is spawned for it.

::

    <state>/lock                              held by the one agent that uses this state
    <state>/instance                          a random id, made once: it distinguishes two agents of one name
    <state>/keeper.socket, keeper.log         of the process that holds the jobs
    <state>/allocations/<allocation>/record   the job's number
                                    /started  made just before the spawn, and never a second time;
                                              then the pid and start time
                                    /prolog, epilog   made just before that program runs, and never a second time;
                                              with the word ``done`` once an epilog has succeeded
                                    /steps    how its newest steps ended, written just before its own end
                                    /ended    the end report, until the intake has recorded it: the last line.
                                              If a process was spawned, another name of ``started``
    <state>/spare                             directories to be used again

A directory without a record was never started: spawning waits for :meth:`AgentState.claim` to return, which has synced
the record. So one fsync serves many starts. ``started`` needs none, because a crash of the machine ends the process
too. Everything here blocks, so the agent calls it in threads.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import msgspec

from rankd.core.errors import Refused, usable
from rankd.services.keeper.message import StepHappened
from rankd.services.keeper.spare import BLANK, SpareDirectories
from rankd.wire.codec import encode
from rankd.wire.message import Report, StartJob

T = TypeVar("T")

log = logging.getLogger("rankd.agent")

_INSTANCE = re.compile(r"[0-9a-f]{32}")

FULL = (errno.ENOSPC, errno.EDQUOT)
FIRST, LAST = 0, -1
PROLOG, EPILOG, DONE = "prolog", "epilog", "done"
STEPS = "steps"
CLAIMS_PER_RECORD = 10_000  # ext4 allows 65,000 links to a file


class EpilogClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The epilog of an allocation, for an agent that has lost the keeper that was to run it."""

    program: str
    environment: dict[str, str]
    timeout_s: float


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to start an allocation once. ``devices``: the ids of those that it holds on this node.

    ``files``: those of its devices. ``interactive``: a client follows it; ``detach_ok``: it may run on without one.
    ``epilog``: the program to run once nothing of it runs any more, with its variables and its time limit in seconds.
    """

    allocation: int
    job: int
    devices: list[str] = []
    files: list[str] = []
    interactive: bool = False
    detach_ok: bool = False
    epilog: EpilogClaim | None = None


def claim_of(start: StartJob, files: list[str], epilog: EpilogClaim | None = None) -> Claim:
    """The claim of an allocation that is to be started, with the files of its devices and its epilog."""
    wanted = start.request.interactive
    return Claim(
        allocation=start.allocation,
        job=start.job,
        devices=start.device_ids,
        files=files,
        interactive=wanted is not None,
        detach_ok=wanted is not None and wanted.detach_ok,
        epilog=epilog,
    )


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies one process: a pid may be used again, but not with the same start time (in clock ticks).

    ``started_at`` is the start in UTC seconds, for reports.
    """

    pid: int
    start_time: int
    started_at: float


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation that an earlier agent left. ``process`` and ``ended`` are None if they are not recorded.

    ``epilog``: whether its epilog is due, was interrupted, or neither.
    """

    claim: Claim
    process: ProcessRecord | None
    ended: Report | None
    epilog: Literal["due", "interrupted"] | None = None
    steps: list[StepHappened] = []


class AgentState(AbstractContextManager["AgentState"]):
    """The state directory. As a context manager it holds the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._allocations = self.root / "allocations"
        self._spare = SpareDirectories(self.root / "spare")
        self._lock = -1
        self.instance = ""
        """The random id of this directory; empty if there was no room to write it down."""

    def __enter__(self) -> Self:
        """Make and lock the directory.

        Raises:
            Refused: ``state_in_use``: another agent uses it; ``bad_path``: it can't be used.
        """
        with usable(self.root, "state"):
            self.root.mkdir(parents=True, exist_ok=True)
            self._allocations.mkdir(mode=0o700, exist_ok=True)
            self._allocations.chmod(0o700)
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            message = f"another agent works with {self.root}; end it, or give each a --state directory of its own"
            raise Refused("state_in_use", message, "state_dir", status=409) from None
        self.instance = _own_instance(self.root / "instance")
        self._spare.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""
        os.close(self._lock)

    def claim(self, claims: Sequence[Claim]) -> set[int]:
        """Make the directories, durably; returns the allocations that had none. Only this caller may start them.

        One file holds the record of many and is linked into each directory: two fsyncs for any number of starts.

        Raises:
            OSError: no allocation is claimed; all may be claimed again.
        """
        made: list[int] = []
        try:
            for first in range(0, len(claims), CLAIMS_PER_RECORD):
                self._claim(claims[first : first + CLAIMS_PER_RECORD], made)
        except OSError:
            self.remove(made)
            raise
        return set(made)

    def _claim(self, claims: Sequence[Claim], made: list[int]) -> None:
        record = self._allocations / ".record"
        # a file that a killed agent left is linked into directories: never write to it
        record.unlink(missing_ok=True)
        _write_synced(record, encode(list(claims)))
        for claim in claims:
            directory = self._allocations / str(claim.allocation)
            with suppress(FileExistsError):
                self._spare.make(directory)
                made.append(claim.allocation)
                (directory / "record").hardlink_to(record)
        record.unlink()
        # this entry follows the links above in the file system's journal, so they are on disk as well
        _sync_directory(self._allocations)

    @contextmanager
    def marker(self, allocation: int) -> Iterator[Callable[[ProcessRecord], None]]:
        """The right to spawn, granted once. Yields a function that writes down the spawned process.

        A full disk does not prevent this: the claim alone prevents a second start, and the process is found by its
        environment.

        Raises:
            FileExistsError: the right was granted before.
            FileNotFoundError: the allocation was never claimed.
        """
        try:
            descriptor = _create_marker(f"{self._allocations}/{allocation}")
        except OSError as error:
            if error.errno not in FULL:
                raise
            yield lambda _: None
            return
        try:
            yield lambda process: _write_if_room(descriptor, encode(process))
        finally:
            os.close(descriptor)

    def begin_hook(self, allocation: int, name: str) -> None:
        """Note that a prolog or epilog is about to run. Granted once, as :meth:`marker`; a full disk prevents nothing.

        Raises:
            FileExistsError: it has run before. FileNotFoundError: the allocation was never claimed.
        """
        path, flags = f"{self._allocations}/{allocation}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.close(os.open(path, flags, 0o600))
        except OSError as error:
            if error.errno not in FULL:
                raise

    def finish_epilog(self, allocation: int) -> None:
        """Note that an epilog has succeeded. Without room, the next agent takes it for an interrupted one."""
        with suppress(OSError):
            (self._allocations / str(allocation) / EPILOG).write_text(DONE)

    def write_end(self, report: Report) -> None:
        """Store the end until it is reported. After a crash of the machine it may read as unknown.

        It exists completely or not at all, because it gets its name once it is written.
        """
        directory = self._allocations / str(report.allocation)
        with suppress(FileNotFoundError, FileExistsError):  # no process was spawned, or this is not the first end
            _append(f"{directory}/started", b"\n" + encode(report))
            os.link(f"{directory}/started", f"{directory}/ended")  # costs a tenth of a new file
            return
        partial = directory / ".ended"
        partial.write_bytes(encode(report))
        partial.replace(directory / "ended")

    def write_steps(self, allocation: int, steps: Sequence[StepHappened]) -> None:
        """Store how steps of an allocation ended: this process may end before an agent has reported it."""
        directory = self._allocations / str(allocation)
        partial = directory / ".steps"
        partial.write_bytes(encode(list(steps)))
        partial.replace(directory / STEPS)

    def remove(self, allocations: Sequence[int]) -> None:
        """Forget these allocations. The record is removed first: a half-removed one must not look interrupted."""
        for allocation in allocations:
            directory = self._allocations / str(allocation)
            if not self._spare.keep(directory):
                (directory / "record").unlink(missing_ok=True)
                shutil.rmtree(directory, ignore_errors=True)

    def scan(self) -> list[Leftover]:
        """The allocations that an earlier agent left, in ascending order; removes those that were never started."""
        names = sorted(int(path.name) for path in self._allocations.iterdir() if path.name.isdigit())
        found = [(name, self._read(name)) for name in names]
        self.remove([name for name, leftover in found if leftover is None])
        return [leftover for _, leftover in found if leftover is not None]

    def _read(self, allocation: int) -> Leftover | None:
        directory = self._allocations / str(allocation)
        claims = _read_json(directory / "record", list[Claim]) or []
        claim = next((claim for claim in claims if claim.allocation == allocation), None)
        if claim is None:
            return None
        return Leftover(
            claim=claim,
            process=_read_json(directory / "started", ProcessRecord, FIRST),
            ended=_read_json(directory / "ended", Report, LAST),
            epilog=_epilog_of(directory) if claim.epilog else None,
            steps=_read_json(directory / STEPS, list[StepHappened]) or [],
        )


def _epilog_of(directory: Path) -> Literal["due", "interrupted"] | None:
    """Nothing is due for an allocation of which neither a prolog nor a process was started."""
    try:
        return None if (directory / EPILOG).read_text() == DONE else "interrupted"
    except FileNotFoundError:
        began = (directory / PROLOG).exists() or (directory / "started").exists()
        return "due" if began else None


def _own_instance(path: Path) -> str:
    """The id in the file, or a new one, synced. A partly written id is replaced."""
    with suppress(FileNotFoundError, UnicodeDecodeError):
        if _INSTANCE.fullmatch(found := path.read_text("ascii").strip()):
            return found
    made, partial = secrets.token_hex(16), path.with_name(".instance")
    try:
        _write_synced(partial, f"{made}\n".encode())
    except OSError as error:
        if error.errno not in FULL:
            raise
        log.warning("no room for %s: another agent of this name can't be distinguished from this one", path)
        return ""
    partial.replace(path)
    _sync_directory(path.parent)
    return made


def _create_marker(directory: str) -> int:
    """A descriptor of a new ``started``: made from the blank if there is one, else a new file."""
    path = f"{directory}/started"
    try:
        os.link(f"{directory}/{BLANK}", path)
    except FileNotFoundError:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def _write_if_room(descriptor: int, content: bytes) -> None:
    try:
        os.write(descriptor, content)
    except OSError as error:
        if error.errno not in FULL:
            raise


def _read_json(path: Path, kind: type[T], line: int = FIRST) -> T | None:
    """A line of a record; None if it is missing or only partly written (after a crash of the machine)."""
    with suppress(FileNotFoundError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes().split(b"\n")[line], type=kind)
    return None


def _append(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write all of it: a disk that fills up accepts a part and refuses the rest."""
    while content:
        content = content[os.write(descriptor, content) :]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
