"""The settings of ``config/rankd.toml`` (and of evaluate's ``priority`` and ``scheduling``), checked and frozen.

The text below a field is its description in ``docs/reference/configuration.md``, which ``make reference`` writes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.model.device import in_lower_case, is_model, model_of
from rankd.core.model.service_setting import (
    AtLeastOne,
    DeviceSettings,
    ForecastSettings,
    KnownNodeSettings,
    NatsSettings,
    NodeSettings,
    NotificationSettings,
    Positive,
    RetentionSettings,
    SessionSettings,
    SiteSettings,
    WebSettings,
)

Privacy = Literal["all", "counts", "own"]

DEFAULT_WEIGHTS = {
    "age": 1000.0,
    "fairshare": 10000.0,
    "qos": 5000.0,
    "queue": 2000.0,
    "size": 1000.0,
    "user": 1000.0,
}


class _Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings: an unknown key (a typo) is an error."""


class FairshareSettings(_Setting, frozen=True, kw_only=True):
    """Fair share: the algorithm, the half-life of usage, and the cost of a second of each resource."""

    algorithm: Literal["fair_tree", "classic"] = "fair_tree"
    """`fair_tree` compares siblings level by level; `classic` is 2^(-usage / share)."""
    dampening: Positive = 1.0
    """Only for `classic`: a larger number makes overuse count less."""
    half_life_s: Positive | None = 604800.0
    """Seconds after which usage counts half (7 days). `"none"`: usage never fades."""
    billing: dict[str, float] = msgspec.field(default_factory=lambda: {"vcore": 1.0, "gpu": 16.0})
    """A table: the cost of one unit of a resource for one second. `vcore` is per core, memory per byte, `gpu` per
    device. `"gpu:MODEL"` is the cost of one model, in capital or small letters. Types that the table leaves out cost
    nothing."""

    def __post_init__(self) -> None:
        """Write models as nodes offer them.

        Raises:
            ValueError: two names mean the same model, or one can't be the name of a model.
        """
        prices: dict[str, float] = {}
        for name, price in self.billing.items():
            kind = in_lower_case(name)
            if kind in prices:
                raise ValueError(f"billing: '{name}' is there twice, since capital letters don't count; remove one")
            if (model := model_of(kind)) is not None and not is_model(model):
                raise ValueError(f"billing: '{name}' names no model; write gpu:MODEL, such as gpu:a100")
            prices[kind] = price
        msgspec.structs.force_setattr(self, "billing", prices)


class PluginSettings(_Setting, frozen=True, kw_only=True):
    """Limits for factors of other packages."""

    deadline_s: Positive = 1.0
    """Seconds that a full pass waits for all factors of other packages together. New jobs between two passes get a
    tenth of it. A later answer counts from the next pass on; after ten times as long, the worker is restarted."""
    memory_bytes: Annotated[int, Meta(ge=2**27)] = 2**30
    """Bytes that each worker process may use, besides the jobs' columns that all of them share."""


class PrioritySettings(_Setting, frozen=True, kw_only=True):
    """How a job's priority is made."""

    policy: Literal["multifactor", "class", "fcfs"] = "multifactor"
    """`multifactor`: class value plus weighted factors. `class`: the class value alone. `fcfs`: first come, first
    served."""
    period_s: Positive = 5.0
    """Seconds between two full passes at most. A change starts one sooner."""
    max_age_s: Positive = 604800.0
    """Seconds of waiting after which the factor `age` is 1 (7 days)."""
    favor: Literal["large", "small"] = "large"
    """Which jobs the factor `size` prefers."""
    size_relative_to_time: bool = False
    """The factor `size` divides cores by the time limit. A job without a limit counts as the smallest."""
    weights: dict[str, float] = msgspec.field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    """A table: factor = weight. Any finite number, negative ones too, but not all 0. Factors are summed and shown in
    this order. A factor without a weight is not used."""
    fairshare: FairshareSettings = FairshareSettings()
    plugins: PluginSettings = PluginSettings()


class SchedulingSettings(_Setting, frozen=True, kw_only=True):
    """How jobs are placed."""

    backfill: Literal["easy", "conservative", "none", "strict"] = "easy"
    """May a later job start before one that does not fit yet? `easy`: yes, where that delays none of the first
    `reserve_depth` waiting jobs of the partition. `conservative`: yes, where that delays no waiting job; this costs
    more time per cycle. `none`: nothing is reserved, every job that fits starts, and a large job may wait long.
    `strict`: no, no job passes one of its partition that waits for nodes."""
    backfill_order: Literal["rank", "shortest"] = "rank"
    """With `easy`: in which order the jobs behind the reserved ones are tried. `rank`: as they are ranked.
    `shortest`: those with the shortest time limit first, then the earliest submission, without regard to queues. Jobs
    wait less on average, and their order is less fair. It has no effect with other values of `backfill`, and is refused
    with them."""
    reserve_depth: AtLeastOne = 1
    """How many waiting jobs per partition get a reservation with `easy`. Until such a job starts, its reservation
    also holds its room in quotas and limits."""
    array_reserve: AtLeastOne = 20
    """How many waiting tasks of an array get reservations with `conservative`."""
    default_time_limit_s: Positive | None = None
    """Seconds: the time limit of a job that names none. Without it such a job may run for ever: nothing can be
    reserved behind it, and it starts only where no reservation needs the room."""
    cancel_if_unmet: bool = False
    """Whether a job is cancelled as soon as a job that it waits for has ended in such a way that it can never start.
    A job may say otherwise with `cancel_if_unmet` (`rankd submit --kill-on-invalid-dep`)."""
    stale_after_s: Positive = 30.0
    """Seconds without a new generation after which the scheduler goes on with the last one (the prioritizer is down
    or hangs). It then adds new and changed jobs behind that ranking, by submission time. Held jobs and jobs that wait
    for a begin time or another job are not added. Must be larger than `priority.period_s`."""


class AdmissionSettings(_Setting, frozen=True, kw_only=True):
    """Which jobs are accepted."""

    unknown_association: Literal["refuse", "default", "zero"] = "refuse"
    """What happens to a user whom no account lists. `refuse`: the job is refused. `default`: the user joins
    `default_account` with one share. `zero`: the same account, but with fair share 0, and nobody else's fair share
    changes. The configuration that ships says `default`."""
    default_account: str = "default"
    """The account for users whom no account lists. Unless they are refused it always exists, and anyone may name
    it."""
    refuse_unfit: bool = False
    """A job that none of the present nodes (up or draining) could ever hold is refused with `no_node_fits`.
    Otherwise it waits with the reason `no node fits`, since nodes may join. An exclusive job whose whole nodes are
    more than a maximum or limit allows is refused too (Slurm's DenyOnLimit); otherwise it waits, with a warning."""
    allow_zero_cores: bool = False
    """Jobs may ask for 0 cores. Such a job gets 0.1 core, is limited to it and charged for it. Otherwise it is
    refused with `zero_cores`."""
    submitters: Literal["any", "users", "known"] = "any"
    """Whose jobs are accepted. `any`: everybody's. `users`: not root's, since no node runs jobs as root where jobs run
    as the users who submit them; they are refused with `root_refused`. `rankd up` as root does so in any case, but
    accepts jobs that root submits at the login socket. `known`: only those of users whom the head's user database has;
    others are refused with `no_such_user`."""
    max_pending_per_user: AtLeastOne = 100_000
    """Pending jobs that a user may have at once, including held ones. More are refused with `too_many_pending`. Jobs
    that are queued again after a lost node are not refused."""
    max_pending: AtLeastOne = 5_000_000
    """Pending jobs of all users together. More are refused with `too_many_pending`."""
    max_pending_per_account: AtLeastOne = 1_000_000
    """Pending jobs in one account, without those of accounts below it. More are refused with `too_many_pending`."""
    max_shapes_per_user: AtLeastOne = 5_000
    """Different shapes (nodes, resources and constraints) of a user's pending jobs. Jobs of other shapes are refused
    with `too_many_shapes`, as long as the user has that many."""
    max_shapes: AtLeastOne = 50_000
    """The same of all users together."""
    max_constraints_per_user: AtLeastOne = 1_000
    """Different constraints of a user's pending jobs. Jobs with other ones are refused with `too_many_constraints`."""
    max_applications_per_user: AtLeastOne = 10_000
    """Different applications of a user's pending jobs. Jobs of other ones are refused with `too_many_applications`."""
    max_requests_per_s: AtLeastOne = 5_000
    """Requests that a user may send per second over a longer time; twice as many at once after a pause. A request
    counts once, and once more for each 4 KiB. Requests above this wait, and at 2,000 waiting ones more are refused with
    `too_many_waiting`. Administrators and nodes have no such limit."""
    max_array_tasks: Annotated[int, Meta(ge=1, le=4_194_304)] = 1_000_000
    """Tasks that an array may have. A larger one is refused with `array_too_large`."""
    max_pending_tasks_per_user: AtLeastOne = 10_000_000
    """Pending tasks of a user, those of arrays included. More are refused with `too_many_pending`. A single job is one
    task."""
    max_pending_tasks_per_account: AtLeastOne = 100_000_000
    """The same of an account, without those of accounts below it."""
    max_pending_tasks: AtLeastOne = 500_000_000
    """The same of all users together."""
    max_env_bytes: Annotated[int, Meta(ge=0, le=192 * 2**10)] = 128 * 2**10
    """Bytes that a job's environment may have. A larger one is refused with `too_long`."""
    max_script_bytes: Annotated[int, Meta(ge=0, le=512 * 2**10)] = 512 * 2**10
    """Bytes that the script of a job may have. A larger one is refused with `script_too_large`. `0`: no scripts."""
    resource_types: list[str] | None = None
    """A list of the resource types that jobs may ask for, besides `vcore`. Without it: `memory` and every type that a
    node, a queue or `priority.fairshare.billing` names. A price of GPUs makes no type known."""

    admins: list[str] = []
    """A list of users who are administrators, besides those with an administrator's credentials. They ask with
    `--admin`. A name that is removed has no more rights from the next request on."""
    admin_groups: list[str] = []
    """A list of groups whose users are administrators."""
    operators: list[str] = []
    """A list of users who may drain and resume nodes, without `--admin`, and nothing else beyond other users."""
    operator_groups: list[str] = []
    """A list of groups whose users are operators."""
    host_groups: Literal["none", "users", "all"] = "users"
    """Whether groups of the head's user database (`/etc/group`, LDAP, …) count, for users about whom accounts.yaml and
    adapters say no groups. `users`: in access lists and limits, but nobody becomes an administrator or operator by
    them. `all`: also in `admin_groups`, `operator_groups` and `adminacl`. `none`: nowhere. A user is looked up by the
    name, so `all` is safe only if every name that you give access to belongs to the same person on the head."""


class PrivacySettings(_Setting, frozen=True, kw_only=True):
    """What users see of others."""

    jobs: Privacy = "all"
    """What ordinary users see of others' jobs. `all`: everything but the environment. `counts`: that a job is there,
    with its state, queue, size and rank. `own`: nothing. With `counts` and `own`, they also see no shares of other
    users and get no reports about all jobs."""


class Qos(_Setting, frozen=True, kw_only=True):
    """A quality of service: its priority and the price of usage under it."""

    name: str
    """Its name. Unique."""
    priority: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """The factor `qos` is this number over the largest of all QoS."""
    factor: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The factor itself, in place of `priority`."""
    usage_factor: Annotated[float, Meta(ge=0)] = 1.0
    """Usage under this QoS is multiplied by this."""
    users: list[str] | None = None
    """A list of the users who may use it, with those in `groups`. Other users are refused with `qos_access`. `[]`:
    administrators only. Without both lists: everyone."""
    groups: list[str] | None = None
    """A list of the groups whose users may use it."""


OptionValue = str | int | float | bool | list[str] | dict[str, str]


class AdapterSettings(_Setting, frozen=True, kw_only=True):
    """An input from outside."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
    """Its name in logs, in events and in the view `adapter`. Unique."""
    input: Literal["associations", "usage", "qos", "groups", "factor"]
    """What it provides."""
    adapter: str
    """The plugin that reads it: `file`, `sql`, `command`, or one of another package."""
    factor: str | None = None
    """Needed with `input = "factor"`: the factor whose values these are. That factor needs a weight."""
    period_s: Annotated[float, Meta(ge=0.1)] = 60.0
    """Seconds between two readings."""
    time_limit_s: Positive = 10.0
    """Seconds after which a reading is ended."""
    largest_bytes: AtLeastOne = 64 * 2**20
    """Bytes that an input may have. A larger one is refused."""
    columns: dict[str, str] = {}
    """A table: rankd's name of a column = its name in the input, such as `{ shares = "weight" }`. Then all other
    columns are ignored."""
    options: dict[str, OptionValue] = {}
    """A table: the plugin's own options, see below."""


class Settings(_Setting, frozen=True, kw_only=True):
    """The whole of rankd.toml."""

    priority: PrioritySettings = PrioritySettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    admission: AdmissionSettings = AdmissionSettings()
    privacy: PrivacySettings = PrivacySettings()
    site: SiteSettings = SiteSettings()
    node: NodeSettings = NodeSettings()
    sessions: SessionSettings = SessionSettings()
    nodes: KnownNodeSettings = KnownNodeSettings()
    devices: DeviceSettings = DeviceSettings()
    retention: RetentionSettings = RetentionSettings()
    forecast: ForecastSettings = ForecastSettings()
    nats: NatsSettings = NatsSettings()
    notifications: NotificationSettings = NotificationSettings()
    web: WebSettings = WebSettings()
    default_qos: str = "normal"
    """The QoS of a job that names none. It must be one of `[[qos]]`."""
    qos: list[Qos] = msgspec.field(default_factory=lambda: [Qos(name="normal")])
    adapters: list[AdapterSettings] = []
