"""The settings about nodes, and about what services do beside ranking and placing jobs. Part of ``config/rankd.toml``.

The text below a field is its description in ``docs/reference/configuration.md``, which ``make reference`` writes.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.model.job_place import CLUSTER

Positive = Annotated[float, Meta(gt=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
HookPath = Annotated[str, Meta(pattern="^/", max_length=4095)]


class _Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings: an unknown key (a typo) is an error."""


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
    pam: Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$")] = ""
    """A service of PAM, such as `rankd` for `/etc/pam.d/rankd`, by which users sign in with the names and passwords
    that they have on the page's machine. It lets in every user but root. The page needs `rankd[pam]`, and the group
    `shadow` if PAM reads `/etc/shadow`. It takes passwords only over https, or if it listens on this machine only.
    `""`: it takes none."""
    metrics: list[str] = []
    """A list of addresses or networks of programs that may read `/metrics` of the page without signing in. This machine
    may, unless the page has another name (`--host`) or this machine is one of `proxies`: then list it here, too."""

    @property
    def signs_in_others(self) -> bool:
        """Whether users other than the one who started the site can sign in."""
        return bool(self.proxies or self.pam)

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
