"""What a user should know about an update that is accepted: that no node could run the job, or what does not count."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rankd.core.admission.fit import shape_of
from rankd.core.admission.offered import Bounds
from rankd.core.change.job_update import Verdict
from rankd.core.model.job import URGENCY_EXPEDITE, URGENCY_HOLD, AcceptedJob
from rankd.core.placement.request import Shape

OF_SIZE = frozenset({"nodes", "min_nodes", "resources", "constraints", "partition", "exclusive", "queue"})
"""Fields that decide which nodes could run a job."""
OF_PRIORITY = frozenset({"urgency", "fixed_priority"})


def warning_of(verdicts: Iterable[Verdict], doubt: Callable[[Shape, Bounds], str | None]) -> str | None:
    """The warning about the first of these jobs that needs one. ``doubt`` says why no node could run a shape."""
    for verdict in verdicts:
        why = None if OF_SIZE.isdisjoint(verdict.changes) else _doubt(verdict.accepted, doubt)
        why = why or _about_priority(verdict)
        if why is not None:
            return f"job {verdict.stored.name(verdict.job)}: {why}"
    return None


def _doubt(job: AcceptedJob, doubt: Callable[[Shape, Bounds], str | None]) -> str | None:
    return doubt(shape_of(job), job.bounds)


def _about_priority(verdict: Verdict) -> str | None:
    """Which of a fixed priority and an urgency counts, if a job has both and one of them changes."""
    _, fixed = verdict.changes.get("fixed_priority", (None, verdict.stored.fixed_priority))
    if fixed is None or OF_PRIORITY.isdisjoint(verdict.changes):
        return None
    urgency = verdict.accepted.urgency
    if urgency == URGENCY_EXPEDITE:
        return f"its urgency {urgency} puts it before all others; its fixed priority {fixed} has no effect beside it"
    if urgency == URGENCY_HOLD:
        return f"its urgency {urgency} holds it; its fixed priority {fixed} counts once it is released"
    if "urgency" not in verdict.changes:
        return None
    return f"its fixed priority {fixed} counts; its urgency {urgency} has no effect until `rankd update --unfix`"
