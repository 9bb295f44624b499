"""What answers say of the start of a job."""

from __future__ import annotations

from typing import Any

import msgspec

ASSUMES = "later arrivals are not assumed"
"""What every forecast says of itself."""


class JobWhen(msgspec.Struct, frozen=True, kw_only=True):
    """When a pending job will start: between ``early`` and ``late``, UTC seconds; of an array, its first pending task.

    ``early`` None: no start can be told. ``late`` None: no latest one. ``unknown`` and ``unknown_fact`` say why, such
    as ``beyond the horizon``. ``made_at`` and ``age_s``: of the forecast; None if there was none yet. ``assumes``: what
    it does not foresee. ``limited_by`` and ``limited_by_fact``: why the job waits now. ``rank`` is one of ``of`` ranked
    jobs. A job that is not pending has its ``started_at``, and no range.
    """

    id: int
    user: str
    state: str
    started_at: float | None = None
    array_job: int | None = None
    array_task: int | None = None
    early: float | None = None
    late: float | None = None
    unknown: str | None = None
    unknown_fact: str = ""
    made_at: float | None = None
    age_s: float | None = None
    assumes: str = ASSUMES
    rank: int | None = None
    of: int | None = None
    limited_by: str | None = None
    limited_by_fact: Any = None
