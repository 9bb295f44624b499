"""Changing jobs, few or very many: in parts, so that each answer comes soon and fits into a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rankd.client.step import Ask, Effort, Plan, answer
from rankd.core.errors import Refused
from rankd.core.model.id_range import apart, written_range
from rankd.wire.encoding import encode
from rankd.wire.job_selection import Failed, JobFilter, JobName, JobSelection, SelectionReply

AT_ONCE = 10_000
ANSWER_TIMEOUT_S = 30.0


class Outcome:
    """The outcome so far. ``untold`` counts failures of which the answers have only the number.

    ``names``: of what was changed, as people name it. ``n_jobs``: how many jobs and tasks that is.
    """

    def __init__(self) -> None:
        self.done: list[int] = []
        self.failed: list[Failed] = []
        self.untold = 0
        self.warning: str | None = None
        self.names: list[str] = []
        self.n_jobs = 0

    def take(self, reply: SelectionReply) -> None:
        """Add another answer."""
        self.done += reply.done
        self.names += map(str, reply.done) if reply.names is None else reply.names
        self.n_jobs += (reply.done_count or len(reply.done)) if reply.jobs is None else reply.jobs
        self.failed += reply.failed
        self.warning = self.warning or reply.warning
        self.untold += (reply.failed_count or len(reply.failed)) - len(reply.failed)

    @property
    def n_failed(self) -> int:
        """The number of jobs that could not be changed."""
        return len(self.failed) + self.untold

    def reply(self) -> SelectionReply:
        """All answers as one."""
        return SelectionReply(
            done=self.done,
            failed=self.failed,
            failed_count=self.n_failed if self.untold else None,
            names=None if self.names == list(map(str, self.done)) else self.names,
            jobs=None if self.n_jobs == len(self.done) else self.n_jobs,
            warning=self.warning,
        )


def change(verb: str, selection: JobSelection, outcome: Outcome, effort: Effort) -> Plan[None]:
    """Send the requests; ``outcome`` gets what was changed, also if a later part fails.

    Raises:
        Refused: a single job that was named can't be changed, or the request is not valid.
        Unavailable: a part failed. The jobs after those in ``outcome`` were not changed, or it is not known.
    """
    for part in parts(selection):
        following: JobSelection | None = part
        while following is not None:
            ask = Ask(verb, encode(following), SelectionReply, ANSWER_TIMEOUT_S)
            reply: SelectionReply = yield from answer(ask, effort, changes=True)
            outcome.take(reply)
            following = behind(following, reply.last)


def change_all(verb: str, selection: JobSelection, effort: Effort) -> Plan[SelectionReply]:
    """As :func:`change`; returns the outcome."""
    outcome = Outcome()
    yield from change(verb, selection, outcome, effort)
    return outcome.reply()


def selected(
    jobs: JobName | Sequence[JobName] | None, chosen: JobFilter | None
) -> tuple[JobName | None, list[JobName] | None]:
    """The one job, or the list of jobs, that a program names.

    Raises:
        Refused: ``empty_selection``: neither jobs nor conditions; every job would be meant.
    """
    if jobs is None and chosen is None:
        raise Refused("empty_selection", "name jobs, or give conditions such as states=['pending']", "jobs")
    if isinstance(jobs, int | str):
        return jobs, None
    return None, None if jobs is None else list(jobs)


def parts(selection: JobSelection) -> Iterator[JobSelection]:
    """The same jobs in parts of at most :data:`AT_ONCE`. Of a filter, only the first part.

    Ranges of ids become filters, since nobody knows how many jobs are in them.
    """
    if selection.filter is None:
        named = apart(selection.ids or [] if selection.id is None else [selection.id])
        if selection.id is not None and named.names:
            yield selection
            return
        for ids in _split(named.names):
            yield msgspec.structs.replace(selection, ids=ids)
        if named.ranges:
            chosen = JobFilter(ids=list(map(written_range, named.ranges)), limit=AT_ONCE)
            yield msgspec.structs.replace(selection, id=None, ids=None, filter=chosen)
    else:
        for some in [None] if selection.filter.ids is None else _split(selection.filter.ids):
            chosen = msgspec.structs.replace(selection.filter, ids=some, limit=AT_ONCE)
            yield msgspec.structs.replace(selection, filter=chosen)


def behind(selection: JobSelection, last: int | None) -> JobSelection | None:
    """The selection of a filter after the job ``last``. None if there are no more jobs."""
    if last is None or selection.filter is None:
        return None
    return msgspec.structs.replace(selection, filter=msgspec.structs.replace(selection.filter, after=last))


def _split(ids: Sequence[JobName]) -> list[list[JobName]]:
    return [list(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)]
