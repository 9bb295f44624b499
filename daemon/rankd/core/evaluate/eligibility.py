"""Which pending jobs of a document are eligible and since when, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from rankd.core.admission.dependency import Blocked, Progress, blocked_by
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.document import Id, JobEntry
from rankd.core.model.job import URGENCY_HOLD, Dependency, State

HELD = "held"
NOT_ELIGIBLE = "not eligible"
UNKNOWN_JOB = -1

Verdict = float | str
"""The time (UTC seconds) since which a job is eligible, or the reason why it is not."""


def judge(pending: Sequence[Job], entries: Sequence[JobEntry], now: float) -> list[Verdict]:
    """A verdict for each pending job. Of several reasons, the first one that applies."""
    numbers = {entry.id: number for number, entry in enumerate(entries, start=1)}
    progress = _progress(entries) if any(job.entry.depends_on for job in pending) else {}
    return [_verdict(job.entry, numbers, progress, now) for job in pending]


def submitted_at(entry: JobEntry, now: float) -> float:
    """When a job was submitted (UTC seconds). The default is now."""
    return now if entry.submitted_at is None else entry.submitted_at


def _verdict(entry: JobEntry, numbers: Mapping[Id, int], progress: Mapping[int, Progress], now: float) -> Verdict:
    if entry.held or entry.urgency == URGENCY_HOLD:
        return HELD
    if entry.depends_on or entry.begin_at is not None:
        depends_on = tuple(Dependency(type=d.type, job=numbers.get(d.job, UNKNOWN_JOB)) for d in entry.depends_on)
        blocked = Blocked(job=numbers[entry.id], held=False, begin_at=entry.begin_at, depends_on=depends_on)
        if reason := blocked_by(blocked, progress, now):
            return reason
    since = entry.eligible_at
    if since is UNSET:
        since = max(submitted_at(entry, now), entry.begin_at or 0.0)
    return NOT_ELIGIBLE if since is None or since > now else since


def _progress(entries: Sequence[JobEntry]) -> dict[int, Progress]:
    """The progress of each job, by its position in ``entries`` from 1."""
    return {
        number: Progress(entry.state, entry.state is State.RUNNING or entry.started_at is not None)
        for number, entry in enumerate(entries, start=1)
    }
