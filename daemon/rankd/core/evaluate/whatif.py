"""What if: changes to a document, and the effects on jobs and users from the results before and after.

Both results come from :func:`rankd.core.evaluate.evaluate.evaluate`. They are exact, not estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np

from rankd.core.adapter.input import Input
from rankd.core.evaluate.diff import Move
from rankd.core.evaluate.document import Document, Id, JobEntry
from rankd.core.evaluate.result import FactorRow, Result
from rankd.core.fairshare.decay import decay
from rankd.core.model.association import Association
from rankd.core.model.setting import PrioritySettings

_ROUNDING = 1e-12
"""A rest smaller than this fraction of a sum counts as a rounding error."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The changes for one user in one account.

    ``jobs``: the number of the user's jobs. The other numbers count only jobs with a rank before and after. Changes are
    in ranks; a negative one means earlier.
    """

    user: str | None
    account: str | None
    jobs: int
    earlier: int
    later: int
    mean_change: float
    largest_change: int


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a job that is submitted now.

    ``error``: why it would be refused; then the other fields are empty. ``rank``: its rank among the ``ranked`` jobs;
    None if it is not ranked. ``passes``: the number of jobs behind it, by user. ``ahead``, ``behind``: the jobs
    directly before and after it. ``nodes``: the nodes where it would start at once, or the nodes of its reservation.
    ``starts_at`` (UTC seconds) is set only for a reservation. ``is_placed`` False: where it would start was not
    computed, since too many jobs wait; the last three fields are empty.
    """

    job: Id
    error: str | None = None
    rank: int | None = None
    ranked: int = 0
    priority: int | None = None
    factors: list[FactorRow] = []
    passes: dict[str, int] = {}
    ahead: Id | None = None
    behind: Id | None = None
    nodes: list[str] = []
    starts_at: float | None = None
    reason: str | None = None
    is_placed: bool = True


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """All changes, compared with one ``generation`` that has this number of ``pending`` jobs.

    ``newer``: the number of waiting jobs that came after that generation; they are not part of the result.
    ``refused``: jobs that would no longer be accepted. ``moved``: how many jobs would change their rank (a summary
    has no ``jobs``).
    """

    generation: int
    jobs: list[Move]
    owners: list[Owner]
    submitted: list[Landing]
    refused: list[str]
    pending: int
    newer: int
    moved: int = 0


def with_weights(document: Document, weights: Mapping[str, float]) -> Document:
    """The document with some weights replaced or added."""
    priority = document.priority or PrioritySettings()
    changed = msgspec.structs.replace(priority, weights={**priority.weights, **weights})
    return msgspec.structs.replace(document, priority=changed)


def with_jobs(document: Document, jobs: Sequence[JobEntry]) -> Document:
    """The document with jobs that are submitted now."""
    return msgspec.structs.replace(document, jobs=[*document.jobs, *jobs])


def stated_over(
    live: Iterable[Association], stated: Iterable[Association], *, drops_users: bool = False
) -> list[Association]:
    """The ``stated`` associations, with the usage of the live ones. Then the live associations that are not stated.

    ``drops_users``: live users that are not stated are left out (the rule ``zero``).
    """
    usage = {(row.account, row.user): row for row in live}
    found = []
    for row in stated:
        present = usage.pop((row.account, row.user), None)
        if present is not None:
            row = msgspec.structs.replace(row, usage=present.usage, usage_at=present.usage_at)  # noqa: PLW2901
        found.append(row)
    left = [row for row in usage.values() if row.user is None or not drops_users]
    return found + [msgspec.structs.replace(row, default=False) for row in left]


def without_inputs(document: Document, dropped: Sequence[tuple[Input, float]]) -> Document:
    """The live document without the values and usage of some adapters.

    ``dropped``: each adapter's input, and when it was read (UTC seconds).
    """
    priority = document.priority or PrioritySettings()
    factors = {given.factor for given, _ in dropped if given.factor is not None}
    stated: dict[tuple[str, str | None], float] = {}
    for given, read_at in dropped:
        for row in given.usage:
            elapsed_s = document.now - (read_at if row.usage_at is None else row.usage_at)
            faded = float(decay(np.array([row.usage]), elapsed_s, priority.fairshare.half_life_s)[0])
            stated[row.account, row.user] = stated.get((row.account, row.user), 0.0) + faded
    return msgspec.structs.replace(
        document,
        jobs=[_without(job, factors) for job in document.jobs] if factors else document.jobs,
        associations=[_less(row, stated.get((row.account, row.user), 0.0)) for row in document.associations or ()],
    )


def _without(job: JobEntry, factors: AbstractSet[str]) -> JobEntry:
    if factors.isdisjoint(job.factors):
        return job
    left = {name: value for name, value in job.factors.items() if name not in factors}
    return msgspec.structs.replace(job, factors=left)


def _less(row: Association, stated: float) -> Association:
    """The association with its usage reduced by ``stated``. A rest that may be a rounding error becomes 0."""
    if not stated:
        return row
    left = row.usage - stated
    return msgspec.structs.replace(row, usage=left if left > _ROUNDING * row.usage else 0.0)


def by_owner(found: Iterable[Move], document: Document) -> list[Owner]:
    """The moves by user and account, sorted by the absolute mean change, the largest first."""
    owners = {job.id: (job.user, job.account) for job in document.jobs}
    ranked: Counter[tuple[str | None, str | None]] = Counter(owners[job.id] for job in document.jobs)
    changes: dict[tuple[str | None, str | None], list[int]] = {}
    for move in found:
        if move.change is not None:
            changes.setdefault(owners.get(move.job, (None, None)), []).append(move.change)
    rows = [
        Owner(
            user=owner[0],
            account=owner[1],
            jobs=ranked[owner],
            earlier=sum(change < 0 for change in moved),
            later=sum(change > 0 for change in moved),
            mean_change=sum(moved) / len(moved),
            largest_change=max(moved, key=abs),
        )
        for owner, moved in changes.items()
    ]
    return sorted(rows, key=lambda row: (-abs(row.mean_change), row.user or "", row.account or ""))


def landing(job: Id, result: Result, document: Document) -> Landing:
    """The place of a job of the document, according to its result."""
    if refused := next((row for row in result.rejected if row.job == job), None):
        return Landing(job=job, error=refused.message)
    own = next(row for row in result.jobs if row.id == job)
    place = None if own.rank is None else own.rank - 1
    behind = [] if place is None else result.ranking[place + 1 :]
    users = {entry.id: entry.user or "" for entry in document.jobs}
    started = next((row for row in result.allocations if row.job == job), None)
    reserved = next((row for row in result.reservations if row.job == job), None)
    return Landing(
        job=job,
        rank=own.rank,
        ranked=len(result.ranking),
        priority=own.priority,
        factors=own.factors,
        passes=dict(Counter(users[other] for other in behind).most_common()),
        ahead=result.ranking[place - 1] if place else None,
        behind=behind[0] if behind else None,
        nodes=started.nodes if started else reserved.nodes if reserved else [],
        starts_at=reserved.starts_at if reserved and not started else None,
        reason=own.reason,
    )
