"""Which interactive jobs have lost their client. Pure: times are arguments, in monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Job:
    detach_ok: bool
    seen_s: float
    is_orphaned: bool = False


class Presence:
    """When a client of each interactive allocation was last heard."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Job] = {}

    def add(self, allocation: int, now_s: float, *, detach_ok: bool) -> None:
        """An interactive job starts here, or goes on after a restart of the agent. Its client has time from now on."""
        self._jobs[allocation] = _Job(detach_ok, now_s)

    def has(self, allocation: int) -> bool:
        """Whether this allocation is an interactive job's that runs."""
        return allocation in self._jobs

    def end(self, allocation: int) -> None:
        """The job has ended."""
        self._jobs.pop(allocation, None)

    def heard(self, allocation: int, now_s: float) -> None:
        """A client of the job has been heard."""
        if job := self._jobs.get(allocation):
            job.seen_s, job.is_orphaned = now_s, False

    def excuse(self, now_s: float) -> None:
        """No client could be heard until now: all of them have their time again."""
        for job in self._jobs.values():
            job.seen_s = now_s

    def orphans(self, now_s: float, orphan_s: float) -> list[tuple[int, bool]]:
        """The allocations that have just lost their client, and whether each may run on.

        >>> presence = Presence()
        >>> presence.add(7, 0.0, detach_ok=False)
        >>> presence.heard(7, 30.0)
        >>> presence.orphans(89.0, 60.0), presence.orphans(90.0, 60.0), presence.orphans(91.0, 60.0)
        ([], [(7, False)], [])
        """
        late = [(key, job) for key, job in self._jobs.items() if not job.is_orphaned and now_s - job.seen_s >= orphan_s]
        for _, job in late:
            job.is_orphaned = True
        return [(key, job.detach_ok) for key, job in late]
