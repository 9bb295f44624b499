"""Jobs that wait for other jobs or for a time, and for which jobs they wait."""

from __future__ import annotations

from collections.abc import Iterable

from rankd.core.admission.dependency import Blocked, named_jobs


class BlockedJobs:
    """Blocked jobs by id, in :attr:`by_id`."""

    def __init__(self) -> None:
        self.by_id: dict[int, Blocked] = {}
        self._waiting_for: dict[int, set[int]] = {}
        """The jobs that depend on each job."""
        self._begin_times: dict[int, float] = {}

    def clear(self) -> None:
        """Forget all of them."""
        self.by_id.clear()
        self._waiting_for.clear()
        self._begin_times.clear()

    def replace(self, changed: Iterable[int], blocked: Iterable[Blocked]) -> None:
        """Of the changed jobs, only those in ``blocked`` are still blocked."""
        for job in changed:
            self._remove(job)
        for one in blocked:
            self.by_id[one.job] = one
            if one.begin_at is not None:
                self._begin_times[one.job] = one.begin_at
            for other in named_jobs(one.depends_on):
                self._waiting_for.setdefault(other, set()).add(one.job)

    def _remove(self, job: int) -> None:
        self._begin_times.pop(job, None)
        known = self.by_id.pop(job, None)
        for other in () if known is None else named_jobs(known.depends_on):
            waiting = self._waiting_for.get(other, set())
            waiting.discard(job)
            if not waiting:
                self._waiting_for.pop(other, None)

    def concerned(self, changed: Iterable[int], now: float) -> dict[int, Blocked]:
        """The jobs that wait for one of the ``changed`` jobs, or whose begin time has come, by id.

        A thread may change the table meanwhile.
        """
        jobs = {job for other in changed for job in tuple(self._waiting_for.get(other, ()))}
        jobs |= {job for job, begin_at in list(self._begin_times.items()) if begin_at <= now}
        return {job: one for job in jobs if (one := self.by_id.get(job)) is not None}

    def next_begin(self, now: float) -> float | None:
        """The earliest begin time in the future (UTC seconds); None if there is none."""
        return min((begin_at for begin_at in list(self._begin_times.values()) if begin_at > now), default=None)
