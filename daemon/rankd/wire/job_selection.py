"""Which jobs a request is about, and the results for them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

JobName = int | str
"""A job or an array (17), a task (``17_3``), several tasks (``17_[1-5,9]``). The id of a task's record means the task.

Where a request may be about several jobs, also a range of ids (``7-9``): the jobs and arrays in it, never tasks.
"""
AtLeastOne = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects jobs: all conditions must hold; lists are alternatives. ``after``: ids above it; ``limit``: the most."""

    id: JobName | None = None
    ids: list[JobName] | None = None
    users: list[str] | None = None
    accounts: list[str] | None = None
    queues: list[str] | None = None
    partitions: list[str] | None = None
    states: list[str] | None = None
    names: list[str] | None = None
    qos: list[str] | None = None
    after: int | None = None
    limit: AtLeastOne = 100_000


class JobSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs to change, by one id, several ids, or a filter. ``dry_run``: report the results, but change nothing."""

    id: JobName | None = None
    ids: list[JobName] | None = None
    filter: JobFilter | None = None
    dry_run: bool = False


class JobRetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job, an array or tasks to submit again. ``failed``: only what did not complete. ``held``: hold the new job.

    ``key``: a second request with the same key gives the same job.
    """

    id: JobName
    failed: bool = False
    held: bool = False
    key: str | None = None


class JobCancel(JobSelection, frozen=True, kw_only=True):
    """Jobs to cancel. ``descendants``: also those that wait for them, directly or through others."""

    descendants: bool = False


class JobSignal(JobSelection, frozen=True, kw_only=True):
    """Running jobs to whose processes a signal is sent: its name, with or without ``SIG``, or its number."""

    signal: str | int


def id_or_name(job: int, name: str) -> JobName:
    """The id of a job as a number; what has another name, such as a task, as text.

    >>> id_or_name(17, "17"), id_or_name(21, "17_3")
    (17, '17_3')
    """
    return job if name == str(job) else name


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A job or a task that could not be changed."""

    id: JobName
    code: str
    message: str


class SelectionReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The jobs that were or would be changed, and those that were not, with the reason.

    ``names``: those of ``done``, in its order, if there are tasks or arrays among them: ``17_3``, or ``17_[4-99]`` for
    the tasks that are pending in an array's record. ``jobs``: the number of jobs and tasks, if it is another one.
    ``done_count`` and ``failed_count``: the total numbers, if the lists only have the first ones. ``last``: if the
    filter's limit was reached, the last job that was examined; ask again with ``after`` set to it. ``warning``: about
    the first job whose update has another effect than it seems, such as that no node could run it.
    """

    done: list[int]
    failed: list[Failed]
    done_count: int | None = None
    failed_count: int | None = None
    last: int | None = None
    warning: str | None = None
    names: list[str] | None = None
    jobs: int | None = None
