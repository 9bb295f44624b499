"""The settings of ``config/rankd.toml`` (and of evaluate's ``priority`` and ``scheduling``), checked and frozen.

The text below a field is its description in ``docs/reference/configuration.md``, which ``make reference`` writes.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.model.device import in_lower_case, is_model, model_of
from rankd.core.model.job_place import CLUSTER

Positive = Annotated[float, Meta(gt=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Privacy = Literal["all", "counts", "own"]
HookPath = Annotated[str, Meta(pattern="^/", max_length=4095)]

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


class NodeSettings(_Setting, frozen=True, kw_only=True):
    """How nodes are watched and how jobs end on them."""

    heartbeat_s: Positive = 5.0
    """Seconds between two heartbeats of an agent."""
    lost_after_s: Positive = 60.0
    """Seconds without a heartbeat after which a node is `lost` and its jobs are queued again. Silence while the
    broker is away does not count."""
    take_timeout_s: Positive = 15.0
    """Seconds within which a living agent must fetch an allocation. Otherwise its node is drained, and the jobs that
    it did not fetch wait again."""
    grace_s: Positive = 5.0
    """Seconds between SIGTERM and SIGKILL when a job is ended."""
    max_requeues: Annotated[int, Meta(ge=0)] = 3
    """How often a job is queued again after its node was lost or a prolog failed. Then it ends as `node_lost`."""
    max_processes: Annotated[int, Meta(ge=16, le=4_194_304)] = 4096
    """Processes and threads that a job may have at once on a node, where the agent can make control groups. More
    forks fail. Agents receive a change with their next heartbeat; it counts for jobs that start after that."""
    prolog: HookPath | None = None
    """The path of a program that each agent runs on its node before a job's first process there, with the agent's
    rights (root, where the agent is root). It and the directories above it must belong to root or the agent's user,
    and others must not be able to write to them (a sticky directory such as `/tmp` is allowed). If it fails, the node
    is drained and the job is queued again. Agents receive a change of this and the next four settings with their next
    heartbeat."""
    epilog: HookPath | None = None
    """The same for a program that runs after a job's last process on the node, however the job ended. If it fails, the
    node is drained."""
    hook_timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = 120.0
    """Seconds after which a prolog, an epilog or a health check is killed. It has failed then."""
    health_check: HookPath | None = None
    """The path of a program that each agent runs regularly, with the same rights and the same rules. While it fails,
    the node is drained with the last line of its output as the reason; once it succeeds, the node takes jobs again,
    unless an administrator has drained it."""
    health_check_period_s: Annotated[float, Meta(ge=1)] = 300.0
    """Seconds from the end of a health check to the start of the next one."""


SiteName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]


class SiteSettings(_Setting, frozen=True, kw_only=True):
    """The site as a whole."""

    name: SiteName = CLUSTER
    """What jobs with Slurm's variables find in `SLURM_CLUSTER_NAME`. Agents receive a change with their next heartbeat;
    it counts for jobs that start after that."""


class SessionSettings(_Setting, frozen=True, kw_only=True):
    """Interactive jobs, and what their clients see of them."""

    orphan_s: Annotated[float, Meta(ge=1)] = 60.0
    """Seconds without a sign of its client after which an interactive job is sent SIGHUP and ended, with the cause
    `orphaned`; with `detach_ok` (`rankd run --detach-ok`) it runs on. Time in which its node can't reach the broker
    does not count. Agents receive a change with their next heartbeat."""


class KnownNodeSettings(_Setting, frozen=True, kw_only=True):
    """Which nodes may join."""

    known: dict[str, dict[str, int | float | str]] = {}
    """A table: names of nodes (`"n[01-08],login"`) = the most resources that each of them may offer, such as
    `{ vcore = 64, memory = "256Gi" }`. Other nodes are refused with `node_not_known`. If a node offers more, it counts
    with these amounts, and its event `bounded` says so; types that are not named do not count. `{}`: whatever it
    offers. Without the table, every node with credentials may join with what it offers."""


class DeviceSettings(_Setting, frozen=True, kw_only=True):
    """What happens to jobs that don't use their GPUs."""

    idle_notify_s: Annotated[float, Meta(ge=600)] | None = None
    """Seconds after which a job's user is notified that it does not use its GPUs: all of them, on all its nodes, stayed
    under 1 % for this time. The job has the event `idle`, and its first node the event `device`. Without it: never."""
    idle_cancel_s: Annotated[float, Meta(ge=600)] | None = None
    """Seconds after which such a job is ended, with the cause `idle`. Never in its first 10 minutes, and never for
    parts of a card (MIG), whose utilisation can't be read. Agents report every five minutes, so a job may run on for
    as long after that. Without it: never."""


class NatsSettings(_Setting, frozen=True, kw_only=True):
    """The broker's streams."""

    replicas: Literal[1, 3, 5] = 1
    """On how many brokers of a cluster each stream and its consumers are stored: 3 stay usable while one broker is
    away, 5 while two are. Counts where a stream is made. A stream that exists stays as it is: `rankd streams check`
    says that it differs, and `rankd streams rebuild` makes it anew."""


class ForecastSettings(_Setting, frozen=True, kw_only=True):
    """Forecasts: when pending jobs will start (`rankd when`)."""

    enabled: bool = True
    """Whether the forecaster makes forecasts. `false`: `rankd when` says that there are none."""
    horizon_jobs: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """How many pending jobs have a range, the first in the ranking. Others are `beyond the horizon`. The cost of a
    forecast grows with it."""
    every_s: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds between two forecasts."""
    most_cpu: Annotated[float, Meta(ge=0.01, le=1)] = 0.25
    """The part of a processor core that the forecaster may use. If forecasts need more, they come less often."""


class RetentionSettings(_Setting, frozen=True, kw_only=True):
    """How long ended jobs, events, and output files on nodes are kept."""

    jobs_s: Annotated[float, Meta(ge=3600)] = 365 * 86400.0
    """Seconds after its end when a job is deleted, with its events and allocations. Fair share does not change, and
    its usage stays in the view `usage_day`. Its id is never given again, and its key still answers with the id. A job
    that is not charged yet, or that a waiting job depends on, stays."""
    events_s: Annotated[float, Meta(ge=3600)] = 365 * 86400.0
    """Seconds after which events of ended jobs, of nodes and of queues are deleted."""
    outputs_s: Annotated[float, Meta(ge=3600)] | None = 90 * 86400.0
    """Seconds after its last change when an agent deletes an output file. `"none"`: never. An agent deletes only
    files in its output directory that jobs wrote because they named no file. Agents receive a change with their next
    heartbeat."""


class NotificationSettings(_Setting, frozen=True, kw_only=True):
    """Whom jobs may notify, and how notifications are sent."""

    allow: list[str] = []
    """A list of patterns of targets that users may name, such as `["mailto:*@example.org",
    "https://hooks.example.org/*"]`. `*` stands for any characters within a part of the URL: the user, the host, the
    port, the path. Other targets are refused with `notification_not_allowed`. The patterns are checked again when a
    notification is sent. `[]`: no notifications."""
    private_hosts: list[str] = []
    """A list of hosts (`["hooks.lan"]`) whose addresses may be private or loopback ones. For other hosts, only public
    addresses are used. The target must be allowed, too."""
    mail_domain: str | None = None
    """The domain of users' mailboxes: a job that names no target notifies `USER@mail_domain`."""
    smtp: str | None = None
    """The mail server: `smtp://host:25` (with STARTTLS if the server offers it), `smtp+starttls://host:587` (never
    without) or `smtps://host:465`. Needed if `allow` has a pattern of `mailto`."""
    smtp_user: str | None = None
    """The user to log in as. Needs TLS."""
    smtp_password_file: str | None = None
    """A file with the password of `smtp_user`. The notifier reads it for each mail."""
    mail_from: str | None = None
    """The sender of mails. Without it: `rankd@` and `mail_domain`, or the mail server's name."""
    ca_file: str | None = None
    """A file with certificates of more CAs (PEM), for receivers and mail servers with certificates of the own CA."""
    max_per_user_per_h: AtLeastOne = 100
    """Notifications that a user's jobs may send in an hour over a longer time. As many may be sent at once after a
    pause. More of them wait; those that can't be sent within `retry_for_s` become dead letters."""
    time_limit_s: Annotated[float, Meta(gt=0, le=120)] = 10.0
    """Seconds that a receiver has for a notification."""
    retry_for_s: Annotated[float, Meta(ge=1, le=7 * 86400)] = 86400.0
    """Seconds for which a notification is sent again, after growing pauses, while it fails. Then it becomes a dead
    letter, which `rankd deadletter` shows."""


class WebSettings(_Setting, frozen=True, kw_only=True):
    """Who signs in to the page (`rankd web`) besides the user who started the site."""

    proxies: list[str] = []
    """A list of addresses or networks (`["127.0.0.1", "10.0.0.0/24"]`) of proxies that authenticate users. A request
    from one of them is its user's: the one whom `user_header` names. Whoever can connect from such an address can act
    as any user but root. `[]`: the page signs in only the user who started the site, by a link for one use."""
    user_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$")] = "X-Remote-User"
    """The header in which such a proxy names the user. The proxy has to remove this header from what users send."""
    metrics: list[str] = []
    """A list of addresses or networks of programs that may read `/metrics` of the page without signing in. This machine
    may, unless the page has another name (`--host`) or this machine is one of `proxies`: then list it here, too."""

    def __post_init__(self) -> None:
        """Check the addresses.

        Raises:
            ValueError: one is no address and no network.
        """
        for key, text in [*(("proxies", one) for one in self.proxies), *(("metrics", one) for one in self.metrics)]:
            try:
                ip_network(text)
            except ValueError:
                message = f"{key}: '{text}' is no address and no network; write 10.0.0.7 or 10.0.0.0/24"
                raise ValueError(message) from None


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
