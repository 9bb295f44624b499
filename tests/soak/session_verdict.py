"""What a session must have shown, read from the records of its job and from the bytes that were written."""

from __future__ import annotations

import collections
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPLAYED_BYTES = 65_536
STRUCK = ("kill", "end")
"""What ends a client before its job."""


class Part(enum.Enum):
    """Which part of what was written a client has to show."""

    WHOLE = "whole"
    WITHIN = "within"
    """Whole, with lines of rankd before and after it."""
    END = "end"
    """The last part, at least as much as is replayed."""


@dataclass(frozen=True)
class Seen:
    """One session. ``ending``: what happened to its client. ``file``: where the job's output is kept too.

    ``job_status``: the exit status of a command that ends by itself. ``before``: what an earlier client had shown.
    ``said``: on standard error. ``step``: the exit status of a step, which the job need not have.
    """

    name: str
    part: Part
    written: bytes
    shown: bytes
    status: int
    ending: str | None = None
    file: Path | None = None
    job_status: int = 0
    before: bytes = b""
    said: bytes = b""
    step: int | None = None


def wrong_sessions(seen: Sequence[Seen], jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """``jobs``: by name, with ``state``, ``cause``, ``exit_status``, and the ``steps`` of those that have some."""
    return [
        f"{one.name} ({one.part.value}, {one.ending}): {wrong}; {one.said!r}"
        for one in seen
        for wrong in _wrong(one, jobs.get(one.name))
    ]


def counts(seen: Sequence[Seen], jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many sessions of each kind ended in which way."""
    counted = collections.Counter(
        f"{one.part.value}, {one.ending or 'undisturbed'}: {jobs[one.name]['state'] if one.name in jobs else 'no job'}"
        for one in seen
    )
    return dict(sorted(counted.items()))


def _wrong(one: Seen, job: Mapping[str, Any] | None) -> list[str]:
    if not _fits(one):
        at = next((n for n, (a, b) in enumerate(zip(one.shown, one.written, strict=False)) if a != b), len(one.written))
        return [f"it shows {len(one.shown)} bytes that were not written so, of {len(one.written)}, from {at} on"]
    if not one.written.startswith(one.before):
        return ["its first client has shown bytes that were not written so"]
    if one.ending in STRUCK:
        return []
    if job is None:
        return [f"it ended with {one.status}, and there is no job"]
    if one.step is not None or _ended_by_itself(job):
        return _wrong_end(one, job) if one.step is None else _wrong_step(one, job)
    wrong = [] if one.status else [f"it ended with 0, and its job is {job['state']}"]
    if job["state"] in ("cancelled", "timeout") or job["cause"] == "orphaned":
        wrong.append(f"its job is {job['state']} ({job['cause']}), and nobody has ended it")
    return wrong


def _ended_by_itself(job: Mapping[str, Any]) -> bool:
    return job["state"] in ("completed", "failed") and job["cause"] is None


def _wrong_end(one: Seen, job: Mapping[str, Any]) -> list[str]:
    """Of a session whose job ended by itself: all bytes, and its status."""
    wrong = []
    if not _is_whole(one):
        wrong.append(f"it shows {len(one.shown)} of {len(one.written)} bytes, and its job is {job['state']}")
    if (job["exit_status"], one.status) != (one.job_status, one.job_status):
        wrong.append(f"it ended with {one.status}, its job with {job['exit_status']}; {one.job_status} is right")
    if one.file is not None and one.file.read_bytes() != one.written:
        wrong.append("its job's file has other bytes than were written")
    return wrong


def _wrong_step(one: Seen, job: Mapping[str, Any]) -> list[str]:
    """Of a client of a step. Its job has ended by itself, was cancelled after the step, or was lost."""
    steps = job["steps"]
    wrong = [f"step {step['number']} has no end" for step in steps if step["ended_at"] is None]
    if job["cause"] not in (None, "cancel") or job["state"] == "completed":  # it has ended before its step
        if one.status == 0:
            wrong.append(f"it ended with 0, and its job is {job['state']}")
        return wrong
    if one.status != one.step or not _is_whole(one):
        wrong.append(f"it ended with {one.status}, {one.step} is right; {len(one.shown)} of {len(one.written)} bytes")
    if (one.step, None) not in {(step["exit_status"], step["cause"]) for step in steps}:
        wrong.append(f"no step of {[tuple(step) for step in steps]} ended with {one.step}")
    return wrong


def _fits(one: Seen) -> bool:
    """Whether nothing was shown that was not written, in another place, or twice."""
    match one.part:
        case Part.WHOLE:
            return one.written.startswith(one.shown)
        case Part.END:
            return one.shown in one.written
    return True


def _is_whole(one: Seen) -> bool:
    match one.part:
        case Part.WHOLE:
            return one.shown == one.written
        case Part.END:
            return one.written.endswith(one.shown) and len(one.shown) >= min(REPLAYED_BYTES, len(one.written))
    return one.written in one.shown
