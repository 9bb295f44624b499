"""What answers say of nodes, queues, shares, services, priority classes and dead letters."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PriorityClass
from rankd.wire.job_record import EventsAfter


class RowsAfter(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next page of a table begins: the key of this page's last row."""

    after: list[str]


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node. Amounts are in users' units. ``allocations``: how many are open; ``allocated``: their amounts."""

    name: str
    partition: str
    state: str
    capacity: dict[str, float]
    labels: dict[str, str]
    agent: str | None
    registered_at: float
    heartbeat_at: float
    drained_by: str | None
    drained_at: float | None
    drain_reason: str | None
    confinement: str
    allocations: int
    allocated: dict[str, float]


class NodePage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of nodes, by partition and name."""

    nodes: list[NodeRow]
    next: RowsAfter | UnsetType = UNSET


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a node. ``job``, ``user`` and ``since``: who holds it since when. ``memory``: bytes, if known."""

    node: str
    index: int
    id: str
    type: str
    model: str
    group: int
    memory: int | None
    state: str
    job: int | None
    user: str | None
    since: float | None
    taken_by: str | None
    reason: str | None
    drained_by: str | None = None


class DevicePage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of devices, by node and id."""

    devices: list[DeviceRow]
    next: RowsAfter | UnsetType = UNSET


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``place``: among its siblings that have pending jobs; ``ahead_by``: what puts it before the next one."""

    path: str
    partition: str
    policy: str
    offset: int
    sort_priority: str
    sort_policy: str
    priority: int | None
    share: float
    pending_jobs: int
    pending: dict[str, float]
    allocated: dict[str, float]
    max: dict[str, float]
    guaranteed: dict[str, float]
    is_leaf: int
    maxapplications: int
    dynamic: int
    applications: int
    generation: int | None
    place: int | None
    ahead_by: str | None


class QueuePage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of queues, by partition and path."""

    queues: list[QueueRow]
    next: RowsAfter | UnsetType = UNSET


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """An account (``user`` None) or a user in one. An infinite ``level_fairshare`` is the text ``inf``."""

    account: str
    user: str | None
    parent: str | None
    shares: float | str
    is_default: bool
    shares_norm: float | None
    usage: float
    usage_effective: float | None
    level_fairshare: float | Literal["inf"] | None
    fairshare: float | None
    generation: int | None


class SharePage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of accounts and users."""

    shares: list[ShareRow]
    next: RowsAfter | UnsetType = UNSET


class ServiceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A service, and when it was last alive."""

    name: str
    holder: str
    started_at: float
    alive_at: float


class SilentNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is silent, and when it was last heard."""

    name: str
    heartbeat_at: float


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    """The services, and the nodes that had been silent when the intake was last alive."""

    services: list[ServiceRow]
    nodes: list[SilentNode]


class ClassChange(PriorityClass, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A priority class to create or to update. ``access``: who may use it; None removes the list."""

    access: AccessList | UnsetType | None = UNSET


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """A priority class, and who may use it if there is a list."""

    name: str
    value: int
    global_default: bool
    description: str
    preemption_policy: str
    access: AccessList | UnsetType = UNSET


class ClassList(msgspec.Struct, frozen=True, kw_only=True):
    """The priority classes, by name."""

    classes: list[ClassRow]


class ClassDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The class of this name is deleted."""

    deleted: str


class LetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, and what became of it. ``jobs``: the ids that a retry made, as JSON text.

    ``job``, ``target``: of a notification, the job that it is about, and where it should go.
    """

    id: int
    kind: str
    user: str
    at: float
    message_id: str | None
    code: str
    message: str
    field: str | None
    submission: str | None
    state: str
    jobs: str | None
    decided_by: str | None
    decided_at: float | None
    bytes: int
    job: int | None = None
    target: str | None = None
    array_job: int | None = None
    array_task: int | None = None


class LetterLoss(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters of a user were deleted because too many waited."""

    user: str
    letters: int
    bytes: int
    at: float


class LetterPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of dead letters, oldest first."""

    letters: list[LetterRow]
    losses: list[LetterLoss]
    next: EventsAfter | UnsetType = UNSET


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request without fields."""
