"""What a decision about a job starts from, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rankd.core.model.job import Event, State

Value = str | int | float | bool | None
"""A value of a job's record."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision has to know of a job."""

    user: str
    state: State
    held: bool
    blocked_by: str | None
    urgency: int
    allocation: int | None
    requeue: bool
    requeues: int
    cancelled_by: str | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one job; ``columns`` are the fields of its record that change with it, ``state`` is that before."""

    job: int
    state: State
    event: Event
    actor: str
    cause: str | None = None
    detail: Mapping[str, object] | None = None
    columns: Mapping[str, Value] = {}


class EndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds an allocation is to be cancelled: its nodes end it, and their reports change its state."""

    job: int
    actor: str
