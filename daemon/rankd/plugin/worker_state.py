"""How a factor in a worker is doing: counts since its service started."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class WorkerState(StrEnum):
    """Of a worker, as ``rankd diag`` shows it."""

    STARTING = "starting"
    GOOD = "good"
    FAILING = "failing"
    LATE = "late"
    ENDED = "ended"


class WorkerCounts(msgspec.Struct):
    """``asked`` for values; of these ``failed``; ``late``: how often it began to be; ``ended`` before its time.

    ``last_s``: how long its last values took. ``message``: what was wrong last, also where all is well since.
    """

    state: WorkerState = WorkerState.STARTING
    asked: int = 0
    failed: int = 0
    late: int = 0
    ended: int = 0
    last_s: float | None = None
    message: str = ""
