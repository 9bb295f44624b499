"""What services say of themselves (``diag.show``): counts since they started, and how long things took.

Each answers on its own subject from memory; the intake puts the answers together.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rankd.wire.answer import Health


class DiagRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``reset``: count anew from here on, durations too; for administrators."""

    reset: bool = False


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the last so many (``n``) of a kind."""

    n: int
    median: float
    p90: float
    p99: float
    worst: float


class ConfigurationDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded configuration that a service goes by; None: files that nobody recorded.

    ``failed``: how many it could not take, or has refused; ``message`` says why of the last, until one was taken.
    """

    number: int | None = None
    failed: int = 0
    message: str | None = None


class SchedulerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler: its cycles, what they came to, and the generation that they go by.

    ``triggers``: how often each kind was among what made a cycle. ``looked_at`` and ``deepest``: how many jobs the
    last cycle, and any cycle, looked at one by one. ``generation_age_s``: since it was first seen. ``stale``: how
    often no other came for too long.
    """

    health: Health | None = None
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
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}


class PluginDiag(msgspec.Struct, frozen=True, kw_only=True):
    """A factor of another package and its worker: how often it was ``asked`` for values and how that went.

    ``state``: ``starting``, ``good``, ``failing``, ``late``, ``ended``. ``late``: how often it began to be late;
    ``ended``: how many workers came to their end. ``last_s``: how long its last answer took. ``message``: what was
    wrong last, also where all is well since.
    """

    pid: int | None
    state: str
    asked: int
    failed: int
    late: int
    ended: int
    last_s: float | None
    message: str | None


class PrioritizerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The prioritizer: full passes and deltas, by phase (``full.rank``), factors that fail, and those of others."""

    health: Health | None = None
    pid: int
    started_at: float
    passes: int
    deltas: int
    durations: dict[str, Spread]
    generation: int
    jobs: int
    last_pass_at: float | None
    failing: dict[str, str]
    plugins: dict[str, PluginDiag] = {}
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}


class RelayDiag(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay has still to publish: how many events, and for how long the first of them has waited."""

    events: int
    lag_s: float


class Diag(msgspec.Struct, frozen=True, kw_only=True):
    """All of it at ``at``, UTC seconds. None: the service does not answer. ``adapters``: the view's rows.

    ``health`` and ``configuration`` are the intake's. ``health`` is None from a service of an older version.
    ``unreadable``, of each service: how many messages it could not decode since it started, by stream
    (``RANKD_REPORTS``) or kind (``wake-up``, ``answer``).
    """

    at: float
    health: Health | None = None
    scheduler: SchedulerDiag | None
    prioritizer: PrioritizerDiag | None
    relay: RelayDiag
    adapters: list[dict[str, Any]]
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}
