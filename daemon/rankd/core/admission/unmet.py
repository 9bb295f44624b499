"""Which jobs are cancelled because they can never start: first ones, and those that wait for them in the same way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from rankd.core.admission.dependency import Awaited, Blocked, awaited

_NEEDS_COMPLETION = ("afterok", "aftercorr")


def doomed_jobs(
    first: Iterable[Blocked],
    waiting_for: Callable[[Sequence[Awaited]], Iterable[Blocked]],
    is_cancelled: Callable[[Blocked], bool],
) -> Iterator[int]:
    """Yield each job that is to be cancelled once, after those because of which it can't start.

    Args:
        first: jobs that can never start, and are cancelled.
        waiting_for: the jobs that wait for one of these names.
        is_cancelled: whether a job is cancelled if it can never start.
    """
    queue = deque(first)
    seen = {one.job for one in queue}
    while queue:
        one = queue.popleft()
        yield one.job
        names = _names(one)
        for other in waiting_for(names):
            if other.job not in seen and _needs(other, names) and is_cancelled(other):
                seen.add(other.job)
                queue.append(other)


def _names(one: Blocked) -> list[Awaited]:
    """The names by which others may wait for this job: a task is also part of its array."""
    return [one.job] if one.task is None else [one.job, one.order, f"{one.order}_{one.task}"]


def _needs(other: Blocked, names: Sequence[Awaited]) -> bool:
    return any(one.type in _NEEDS_COMPLETION and awaited(one, other.task) in names for one in other.depends_on)
