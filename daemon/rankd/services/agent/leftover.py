"""Ending the processes that a killed agent left running: of allocations, and of its health check.

A process belongs to an allocation if its pid and start time are the recorded ones, or if its environment carries the
mark of this state directory. The mark finds a process that was spawned just before its pid could be written, and
children that outlived their leader. Signals go through pidfds, so they never reach another process that reuses a pid.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from rankd.services.keeper.proc import all_pids, start_time_of
from rankd.services.keeper.state import ProcessRecord

STATE_VARIABLE = "RANKD_AGENT_STATE"
HOOK_VARIABLE = "RANKD_HOOK"
HEALTH_CHECK = "health_check"
_ALLOCATION_VARIABLE = "RANKD_ALLOCATION_ID"
_ROUNDS = 3  # a process may fork while it is being looked for


def end_leftovers(state: str, allocations: Iterable[int], recorded: Iterable[ProcessRecord], grace_s: float) -> int:
    """Send TERM, wait for the grace time, send KILL to every process of these allocations; returns their number."""
    wanted = {str(allocation) for allocation in allocations}
    times = {record.pid: record.start_time for record in recorded}

    def is_left(pid: int) -> bool:
        start = start_time_of(pid)
        return start is not None and (times.get(pid) == start or _is_marked(pid, state, wanted))

    return _end_all(is_left, grace_s)


def end_health_check(state: str) -> int:
    """Kill every process of a health check of an earlier agent of this state directory; returns their number."""
    return _end_all(lambda pid: _variables(Path(f"/proc/{pid}"), state).get(HOOK_VARIABLE) == HEALTH_CHECK, 0.0)


def _end_all(is_left: Callable[[int], bool], grace_s: float) -> int:
    ended = 0
    for round_ in range(_ROUNDS):
        with ExitStack() as files:
            found = _find(is_left, files)
            if not found:
                break
            ended += len(found)
            _end(found, grace_s if round_ == 0 else 0.0)
    return ended


def _find(is_left: Callable[[int], bool], files: ExitStack) -> list[int]:
    """The pidfds of these processes. Each is opened before the check, so the checked process is the signalled one."""
    found = []
    for pid in all_pids():
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            files.callback(os.close, descriptor)
            if is_left(pid):
                found.append(descriptor)
    return found


def _is_marked(pid: int, state: str, wanted: set[str]) -> bool:
    return _marks(Path(f"/proc/{pid}"), state) in wanted


def mark_of(pid: int, state: str, proc: Path) -> int | None:
    """The allocation of this state directory that a process's environment names; None if it names none."""
    with suppress(OSError, ValueError):
        return int(_marks(proc / str(pid), state) or "")
    return None


def _marks(directory: Path, state: str) -> str | None:
    return _variables(directory, state).get(_ALLOCATION_VARIABLE)


def _variables(directory: Path, state: str) -> dict[str, str]:
    """The environment of a process, if it carries the mark of this state directory; else nothing."""
    variables = (directory / "environ").read_bytes().decode(errors="replace").split("\0")
    marks = dict(variable.partition("=")[::2] for variable in variables)
    return marks if marks.get(STATE_VARIABLE) == state else {}


def _end(descriptors: list[int], grace_s: float) -> None:
    _send(descriptors, signal.SIGTERM)
    if alive := _wait(descriptors, grace_s):
        _send(alive, signal.SIGKILL)
        _wait(alive, grace_s + 1)


def _send(descriptors: list[int], number: int) -> None:
    for descriptor in descriptors:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)


def _wait(descriptors: list[int], timeout_s: float) -> list[int]:
    """Wait until all have ended or the time is over; returns those that have not ended."""
    alive = set(descriptors)
    poll = select.poll()
    for descriptor in alive:
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while alive and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            alive.discard(descriptor)
    return list(alive)
