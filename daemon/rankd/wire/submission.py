"""Messages about submitting jobs: a batch, and the result of each of its jobs."""

from __future__ import annotations

import msgspec

from rankd.core.admission.start_check import Wait
from rankd.core.model.job import JobRequest

MAX_JOBS_PER_MESSAGE = 10_000


class JobBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many jobs. Each is decoded separately, so that an invalid one does not affect the others."""

    jobs: list[msgspec.Raw]
    atomic: bool = False


class Jobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many jobs as a client sends them. ``atomic``: accept all of them or none."""

    jobs: list[JobRequest]
    atomic: bool = False


class Submitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job that a submission is. ``tasks``: of an array, their number.

    ``warning``: what its user should know, a line each: why no node that has registered could run the job, if that is
    certain (it waits for such a node); and which notifications are left out, or reach nobody.
    """

    id: int
    tasks: int | None = None
    warning: str | None = None


class Tested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that would be accepted, with the names that it would have. ``tasks``: of an array, their number.

    ``waits``: what would keep it from starting at once, as far as that is known without placing it. ``warning``: as in
    :class:`Submitted`.
    """

    user: str
    account: str
    queue: str
    partition: str
    qos: str
    tasks: int | None = None
    waits: list[Wait] = []
    warning: str | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a batch that was accepted. ``tasks``: of an array, their number.

    ``warning``: as that of a single job, about notifications only. A line that an earlier job has is left out.
    """

    index: int
    id: int
    tasks: int | None = None
    warning: str | None = None


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was refused."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of each job of a batch, by its index."""

    accepted: list[Accepted]
    rejected: list[Rejected]
