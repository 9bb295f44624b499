"""The settings of ``config/rankd.toml`` (and of evaluate's ``priority`` and ``scheduling``), checked and frozen."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]

DEFAULT_WEIGHTS = {
    "age": 1000.0,
    "fairshare": 10000.0,
    "qos": 5000.0,
    "queue": 2000.0,
    "size": 1000.0,
    "user": 1000.0,
}


class _Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A typo in a configuration is an error, never a silent default."""


class FairshareSettings(_Setting, frozen=True, kw_only=True):
    """Fair share: the algorithm, the half-life of usage, and what a second of each resource costs.

    ``half_life_s`` is None where nothing decays. ``billing`` holds cost per unit and second (vcore: per core).
    """

    algorithm: Literal["fair_tree", "classic"] = "fair_tree"
    dampening: Positive = 1.0
    half_life_s: Positive | None = 604800.0
    billing: dict[str, float] = msgspec.field(default_factory=lambda: {"vcore": 1.0})


class PluginSettings(_Setting, frozen=True, kw_only=True):
    """What factors of other packages may take: time for an answer, and memory, each."""

    deadline_s: Positive = 1.0
    memory_bytes: Annotated[int, Meta(ge=2**27)] = 2**30


class PrioritySettings(_Setting, frozen=True, kw_only=True):
    """How a job's priority is made. ``weights`` name the factors, in the order in which they are summed."""

    policy: Literal["multifactor", "class", "fcfs"] = "multifactor"
    period_s: Positive = 5.0
    max_age_s: Positive = 604800.0
    favor: Literal["large", "small"] = "large"
    size_relative_to_time: bool = False
    weights: dict[str, float] = msgspec.field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    fairshare: FairshareSettings = FairshareSettings()
    plugins: PluginSettings = PluginSettings()


class SchedulingSettings(_Setting, frozen=True, kw_only=True):
    """How jobs are placed."""

    backfill: Literal["easy", "conservative", "none"] = "easy"
    reserve_depth: AtLeastOne = 1
    default_time_limit_s: Positive | None = None
    stale_after_s: Positive = 30.0


class AdmissionSettings(_Setting, frozen=True, kw_only=True):
    """What is taken in. ``unknown_association``: what becomes of a user whom no account lists.

    ``resource_types`` None: those that nodes, queues or prices name.
    """

    unknown_association: Literal["refuse", "default", "zero"] = "refuse"
    default_account: str = "default"
    refuse_unfit: bool = False
    allow_zero_cores: bool = False
    max_env_bytes: Annotated[int, Meta(ge=0, le=192 * 2**10)] = 128 * 2**10
    resource_types: list[str] | None = None


class NodeSettings(_Setting, frozen=True, kw_only=True):
    """How nodes are watched and how jobs end on them."""

    heartbeat_s: Positive = 5.0
    lost_after_s: Positive = 60.0
    take_timeout_s: Positive = 15.0
    grace_s: Positive = 5.0
    max_requeues: Annotated[int, Meta(ge=0)] = 3
    max_processes: Annotated[int, Meta(ge=16, le=4_194_304)] = 4096


class RetentionSettings(_Setting, frozen=True, kw_only=True):
    """How long ended jobs, events, and output files on nodes are kept. ``outputs_s`` None: for ever."""

    jobs_s: Annotated[float, Meta(ge=3600)] = 365 * 86400.0
    events_s: Annotated[float, Meta(ge=3600)] = 365 * 86400.0
    outputs_s: Annotated[float, Meta(ge=3600)] | None = 90 * 86400.0


class Qos(_Setting, frozen=True, kw_only=True):
    """A quality of service: its priority among all, or a factor outright, and what usage under it costs."""

    name: str
    priority: Annotated[int, Meta(ge=0, le=2**53)] = 0
    factor: Annotated[float, Meta(ge=0, le=1)] | None = None
    usage_factor: Annotated[float, Meta(ge=0)] = 1.0


OptionValue = str | int | float | bool | list[str] | dict[str, str]


class AdapterSettings(_Setting, frozen=True, kw_only=True):
    """An input from outside: what it gives, which plugin reads it, how often, and within which limits.

    ``columns``: what the input's columns are called there, by rankd's names for them. ``options`` are the plugin's.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
    input: Literal["associations", "usage", "qos", "groups", "factor"]
    adapter: str
    factor: str | None = None
    period_s: Annotated[float, Meta(ge=0.1)] = 60.0
    time_limit_s: Positive = 10.0
    largest_bytes: AtLeastOne = 64 * 2**20
    columns: dict[str, str] = {}
    options: dict[str, OptionValue] = {}


class Settings(_Setting, frozen=True, kw_only=True):
    """The whole of rankd.toml."""

    priority: PrioritySettings = PrioritySettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    admission: AdmissionSettings = AdmissionSettings()
    node: NodeSettings = NodeSettings()
    retention: RetentionSettings = RetentionSettings()
    default_qos: str = "normal"
    qos: list[Qos] = msgspec.field(default_factory=lambda: [Qos(name="normal")])
    adapters: list[AdapterSettings] = []
