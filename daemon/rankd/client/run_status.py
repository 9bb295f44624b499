"""What ``rankd run`` says while its job waits, and the status with which it ends. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from rankd.core.model.job_state import FINAL_STATES

TIME_LIMIT, OUT_OF_MEMORY, NOT_THE_COMMANDS, INTERRUPTED = 124, 137, 125, 130
SIGNALLED = 128
_OF_COMMAND = frozenset({"completed", "failed"})
_AWAITED = {"resources": "resources", "dependency": "other jobs", "begin time": "its begin time"}
"""What a job waits for, by its reason; other reasons say it themselves."""


def exit_status_of(state: str, cause: str | None, exit_status: int | None, signal: int | None) -> int:
    """The exit status of a job's client.

    >>> exit_status_of("failed", None, 3, None), exit_status_of("failed", None, None, 9)
    (3, 137)
    >>> exit_status_of("timeout", "timeout", None, 15), exit_status_of("cancelled", "cancel", None, 15)
    (124, 125)
    >>> exit_status_of("failed", "start_failed", 127, None)
    127
    """
    if state == "timeout":
        return TIME_LIMIT
    if state == "out_of_memory" or cause == "out_of_memory":
        return OUT_OF_MEMORY
    if state not in _OF_COMMAND or cause not in (None, "start_failed"):
        return NOT_THE_COMMANDS
    if signal is not None:
        return SIGNALLED + signal
    return NOT_THE_COMMANDS if exit_status is None else exit_status


_ENDED = {"timeout": "has reached its time limit", "cancelled": "was cancelled", "node_lost": "was lost with its node"}


def how_it_ended(record: dict[str, Any]) -> str | None:
    """What to say about a job that its own exit status does not explain; None for others.

    >>> how_it_ended({"id": 17, "state": "timeout", "message": None})
    'job 17 has reached its time limit'
    """
    if record["state"] == "completed":
        return None
    if message := record.get("message"):
        return f"job {record['id']}: {message}"
    return f"job {record['id']} {_ENDED[record['state']]}" if record["state"] in _ENDED else None


class Foreseen(NamedTuple):
    """The earliest and the latest start, and now, in UTC seconds. ``late`` None: no latest one can be told."""

    early: float
    late: float | None
    now: float


def waiting_line(record: dict[str, Any], of: int | None, foreseen: Foreseen | None) -> str:
    """Why a job waits, in a line. ``of``: how many jobs are ranked.

    >>> record = {"id": 17, "rank": 3, "state": "pending", "reason": "resources"}
    >>> waiting_line(record, 40, None)
    'job 17: rank 3 of 40, waiting for resources'
    """
    rank, reason = record.get("rank"), record.get("reason")
    parts = [f"rank {rank} of {of}" if of else f"rank {rank}"] if rank else []
    if record["state"] in ("allocated", "running"):
        parts, foreseen = ["starting"], None
    else:
        parts.append(f"waiting for {_AWAITED[reason]}" if reason in _AWAITED else reason or "waiting")
    line = f"job {record['id']}: {', '.join(parts)}"
    return line if foreseen is None else f"{line}; {_start(foreseen)}"


def _start(foreseen: Foreseen) -> str:
    """The middle of the range, by which forecasts are scored, and the range."""
    early, late, now = foreseen
    if late is None:
        return f"starts at {_clock(early, now)} at the earliest"
    if late - early < 1:  # too few jobs have ended to say how much earlier
        return f"starts by {_clock(late, now)} at the latest"
    return f"estimated start {_clock((early + late) / 2, now)} ({_clock(early, now)} to {_clock(late, now)})"


def _clock(at: float, now: float) -> str:
    """The local time, with its date unless that is today."""
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%dT%H:%M", then)


def nodes_of_tasks(nodes: Sequence[str], tasks: int | None) -> list[str]:
    """The node of each task, in blocks as Slurm spreads them; None: a task on each node.

    >>> nodes_of_tasks(["n1", "n2"], 3)
    ['n1', 'n1', 'n2']
    >>> nodes_of_tasks(["n1", "n2"], None)
    ['n1', 'n2']
    """
    if tasks is None:
        return list(nodes)
    return [nodes[task * len(nodes) // tasks] for task in range(tasks)]


def has_ended(state: str) -> bool:
    """Whether a job in this state has ended."""
    return state in FINAL_STATES


class Interrupts:
    """Counts interrupts: three within a second cancel the job."""

    MOST = 3
    WITHIN_S = 1.0

    def __init__(self) -> None:
        self._at: list[float] = []

    def add(self, now_s: float, number: int = 1) -> bool:
        """Count ``number`` more; returns whether the job is to be cancelled.

        >>> interrupts = Interrupts()
        >>> interrupts.add(0.0), interrupts.add(0.9), interrupts.add(1.1), interrupts.add(1.2)
        (False, False, False, True)
        """
        self._at = [at for at in self._at if now_s - at <= self.WITHIN_S] + [now_s] * number
        return len(self._at) >= self.MOST
