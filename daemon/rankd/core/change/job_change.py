"""The input and the results of a decision about a job."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rankd.core.model.array import shown_name
from rankd.core.model.job import Event, State

VIA = "via"
"""In the detail of an event: the gateway that vouched for its actor."""

Value = str | int | float | bool | None
"""A value of a job's record."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a job that a decision needs. ``array_job`` and ``array_task``: its array and its index.

    ``array``: of an array, the indices that are pending in its record. ``revision``: its last event.
    """

    user: str
    state: State
    revision: int = 0
    held: bool
    held_by: str | None = None
    blocked_by: str | None
    urgency: int
    allocation: int | None
    requeue: bool
    requeues: int
    cancelled_by: str | None
    cancelled_via: str | None = None
    array_job: int | None = None
    array_task: int | None = None
    array: str | None = None

    def name(self, job: int) -> str:
        """How people name the job with this id: ``17``, or ``17_3`` for a task of array 17."""
        return shown_name(job, self.array_job, self.array_task, None, None)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one job. ``state`` is the state before it; ``columns`` are the fields of the record that change."""

    job: int
    state: State
    event: Event
    actor: str
    cause: str | None = None
    detail: Mapping[str, object] | None = None
    columns: Mapping[str, Value] = {}


class EndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to cancel a job with an allocation. Its nodes end it, and then their reports change its state.

    ``via``: the gateway that vouched for the actor; None where none did.
    """

    job: int
    actor: str
    via: str | None = None
