"""What services report about themselves (``diag.show``): counts since their start, and durations.

Each service answers on its own subject from memory. The intake combines the answers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rankd.wire.answer import Health


class DiagRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``reset``: start all counts and durations again; for administrators."""

    reset: bool = False


class DiagAsked(DiagRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, as users send it."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the last ``n`` durations of a kind, in seconds."""

    n: int
    median: float
    p90: float
    p99: float
    worst: float


class ConfigurationDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The number of the recorded configuration that a service uses; None for files that no intake recorded.

    ``failed``: how many it could not use or has refused. ``message``: the reason of the last, until one is used.
    """

    number: int | None = None
    failed: int = 0
    message: str | None = None


class SchedulerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler: its cycles and their results, and the generation that it uses.

    ``triggers``: how often each kind was a reason for a cycle. ``looked_at`` and ``deepest``: how many jobs the last
    cycle, and any cycle, examined one by one. ``generation_age_s``: since the generation was first seen. ``stale``: how
    often generations were overdue.
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
    """A factor of another package and its worker: how often it was ``asked`` for values, and the results.

    ``state``: ``starting``, ``good``, ``failing``, ``late``, ``ended``. ``late``: how often it became late. ``ended``:
    how many workers have ended. ``last_s``: how long its last answer took. ``message``: its last fault, even if it has
    worked since.
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
    """The prioritizer: full passes and deltas, by phase (``full.rank``), failing factors, other packages' factors."""

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


class NotificationBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications that wait, those of them that have failed before, and how long the oldest has waited."""

    waiting: int
    failing: int
    oldest_s: float


class NotifierDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The notifier: how many notifications it has noted and sent, attempts that failed, and dead letters.

    ``durations``: of attempts, by kind of target. ``in_flight``: attempts at this moment. ``problem``: the last one.
    """

    health: Health | None = None
    pid: int
    started_at: float
    noted: int
    sent: int
    failed: int
    given_up: int
    in_flight: int
    durations: dict[str, Spread]
    problem: str | None = None
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}


class ForecasterDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The forecaster: how many forecasts it has made, and what the last one was about.

    ``jobs``: those with a range, or with a reason for having none. ``beyond``: pending jobs beyond the horizon.
    ``durations``: of forecasts as a whole, with the rests in them, and of their processor time.
    """

    health: Health | None = None
    pid: int
    started_at: float
    forecasts: int
    last_made_at: float | None
    jobs: int
    beyond: int
    durations: dict[str, Spread]
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}


class EstimateDiag(msgspec.Struct, frozen=True, kw_only=True):
    """How good the last estimates were that somebody was shown, of jobs that have started since.

    ``scored``: their number. ``within``: the part that started within the range. ``near``: the part that started at
    most 10 minutes from its middle. ``error_s``: the median distance from the middle. None: there is none yet.
    """

    scored: int = 0
    within: float | None = None
    near: float | None = None
    error_s: float | None = None


class RelayDiag(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay still has to publish: the number of events, and how long the oldest has waited."""

    events: int
    lag_s: float


class FollowerDiag(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a stream on a broker that does not lead it.

    ``silent_s``: since the leader heard of it. ``behind``: operations that it lacks, ``behind_for_s``: since when.
    """

    name: str
    is_current: bool = True
    silent_s: float = 0.0
    behind: int = 0
    behind_for_s: float = 0.0


class StreamDiag(msgspec.Struct, frozen=True, kw_only=True):
    """A stream: the broker that leads it (None: there is no leader), and its copies on others.

    ``copies``: how many it was made with. ``wanted``: how many the configuration asks for. ``alarms``: what is wrong,
    and what to do.
    """

    name: str
    wanted: int = 1
    copies: int = 0
    leader: str | None = None
    is_missing: bool = False
    messages: int | None = None
    followers: list[FollowerDiag] = []
    alarms: list[str] = []


class RoleDiag(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a role: ``holder`` (host and process id) since ``since``, UTC seconds, as its ``epoch``-th holder.

    ``alive_at``: the last sign of life. ``resigned_at``: when the holder gave the role back, and nobody has it.
    ``takeover_s``: how long the last take-over took, until the first work of this holder; None where roles have no
    lease, and until then.
    """

    name: str
    holder: str
    epoch: int
    since: float
    alive_at: float
    resigned_at: float | None = None
    takeover_s: float | None = None


class Diag(msgspec.Struct, frozen=True, kw_only=True):
    """All figures as of ``at``, UTC seconds. None: the service does not answer. ``adapters``: the view's rows.

    ``health`` and ``configuration`` are the intake's that holds the role. ``intakes``: all that answer users, where
    there may be several. ``health`` is None from a service of an older version.
    ``unreadable``: how many messages each service could not decode since it started, by stream (``RANKD_REPORTS``) or
    kind (``wake-up``, ``answer``).
    ``foreign_reports``: how many reports of nodes the intake has had about allocations that they were never given.
    ``streams``: as of the last look, a few seconds ago.
    ``devices``: those that have failed, in words; new jobs don't get them until an administrator resumes them.
    ``nodes``: those that a health check or the intake has drained, in words.
    ``roles``: who holds each role, as of the records.
    ``forecaster``: None where none answers. ``estimates``: how good its ranges were.
    ``notifier``: None where none runs, since the site allows no notifications. ``notifications``: what waits for it.
    """

    at: float
    health: Health | None = None
    intakes: list[Health] = []
    scheduler: SchedulerDiag | None
    prioritizer: PrioritizerDiag | None
    relay: RelayDiag
    adapters: list[dict[str, Any]]
    configuration: ConfigurationDiag = ConfigurationDiag()
    unreadable: dict[str, int] = {}
    foreign_reports: int = 0
    notifier: NotifierDiag | None = None
    notifications: NotificationBacklog | None = None
    streams: list[StreamDiag] = []
    devices: list[str] = []
    nodes: list[str] = []
    roles: list[RoleDiag] = []
    forecaster: ForecasterDiag | None = None
    estimates: EstimateDiag = EstimateDiag()
