"""The state of a factor's worker, and counts since its service started."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class WorkerState(StrEnum):
    """The state of a worker, as ``rankd diag`` shows it."""

    STARTING = "starting"
    GOOD = "good"
    FAILING = "failing"
    LATE = "late"
    ENDED = "ended"


class WorkerCounts(msgspec.Struct):
    """How often a worker was ``asked`` for values, ``failed`` to return them, became ``late``, ``ended`` unexpectedly.

    ``last_s``: how many seconds its last values took. ``message``: the last fault, even if it has worked since.
    """

    state: WorkerState = WorkerState.STARTING
    asked: int = 0
    failed: int = 0
    late: int = 0
    ended: int = 0
    last_s: float | None = None
    message: str = ""
