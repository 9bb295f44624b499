"""Requests for a page of a list: jobs, priorities, events, nodes, queues, shares; and for a single job."""

from __future__ import annotations

import msgspec

from rankd.wire.job_selection import AtLeastOne, JobFilter, JobName


class JobList(JobFilter, frozen=True, kw_only=True):
    """A page of jobs: newest first, ids below ``before``; or oldest first, ids above ``after``.

    ``limit``: a page has at most 1,000. ``count``: also return the number of jobs on all pages. ``tasks`` false: leave
    out tasks of arrays that have records of their own.
    """

    before: int | None = None
    count: bool = False
    tasks: bool = True
    limit: AtLeastOne = 1_000


class RankPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last job of a page of priorities, and its rank at that time."""

    job: int
    rank: int | None


class PriorityList(JobFilter, frozen=True, kw_only=True):
    """A page of pending jobs by rank. ``behind``: the end of the page before."""

    behind: RankPlace | None = None
    count: bool = False
    limit: AtLeastOne = 1_000


class TableFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list of nodes, queues or shares. ``after``: the key of the last row of the page before."""

    after: list[str] | None = None
    limit: AtLeastOne = 1_000


class AccountingFilter(JobList, frozen=True, kw_only=True):
    """Also selects jobs that had not ended before ``since`` and were submitted until ``until``, in UTC seconds."""

    since: float | None = None
    until: float | None = None


class JobShow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job, array or task."""

    id: JobName


class EventsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events of jobs: with ids above ``after``, and not before ``since`` (UTC seconds). Without both: none.

    ``users``, ``jobs``: only of these; None means all that the asker may see.
    """

    after: int | None = None
    since: float | None = None
    users: list[str] | None = None
    jobs: list[JobName] | None = None
    limit: AtLeastOne = 1_000


class HistoryRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of one job's events. ``after``: the id of the last event of the page before."""

    id: JobName
    after: int | None = None
    limit: AtLeastOne = 1_000
