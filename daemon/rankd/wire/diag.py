"""What services say of themselves (``diag.show``): counts since they started, and how long things took.

Each answers on its own subject from memory; the intake puts the answers together.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the last so many (``n``) of a kind."""

    n: int
    median: float
    p90: float
    p99: float
    worst: float


class SchedulerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler: its cycles, what they came to, and the generation that they go by.

    ``triggers``: how often each kind was among what made a cycle. ``looked_at`` and ``deepest``: how many jobs the
    last cycle, and any cycle, looked at one by one. ``generation_age_s``: since it was first seen. ``stale``: how
    often no other came for too long.
    """

    pid: int
    started_at: float
    cycles: int
    triggers: dict[str, int]
    durations: dict[str, Spread]
    started: int
    backfilled: int
    reserved: int
    looked_at: int
    deepest: int
    last_cycle_at: float | None
    generation: int
    generation_age_s: float
    is_stale: bool
    stale: int


class PrioritizerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The prioritizer: full passes and deltas, by phase (``full.rank``), and factors that fail."""

    pid: int
    started_at: float
    passes: int
    deltas: int
    durations: dict[str, Spread]
    generation: int
    jobs: int
    last_pass_at: float | None
    failing: dict[str, str]


class RelayDiag(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay has still to publish: how many events, and for how long the first of them has waited."""

    events: int
    lag_s: float


class Diag(msgspec.Struct, frozen=True, kw_only=True):
    """All of it at ``at``, UTC seconds. None: the service does not answer. ``adapters``: the view's rows."""

    at: float
    scheduler: SchedulerDiag | None
    prioritizer: PrioritizerDiag | None
    relay: RelayDiag
    adapters: list[dict[str, Any]]
