"""What answers say of jobs: a job's whole record, rows of lists, events, and the way to the next page.

What ``[privacy] jobs`` hides of another user's job is None.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rankd.core.model.job import Dependency, Interactive
from rankd.core.model.notification import Notify
from rankd.core.model.quantity import Amount
from rankd.wire.job_selection import JobName
from rankd.wire.rank_record import Breakdown


class FailedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that did not arrive: ``problem`` says why.

    It is sent again at ``again_at``, after so many ``attempts``; or it was given up, and is the dead letter of this id.
    """

    event: str | None
    target: str | None
    problem: str | None
    attempts: int | None
    again_at: float | None
    dead_letter: int | None


class JobStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job: a shell, or a command that was started in it. ``started_at``: when it was granted.

    ``exit_status``, ``signal`` and ``cause`` are those of its worst task that has ended. ``cause``: ``not_started``,
    ``lost``, ``job_ended``; None: it ran to its end, or runs.
    """

    number: int
    command: str
    tasks: int
    nodelist: str
    started_by: str
    started_at: float
    ended_at: float | None
    exit_status: int | None
    signal: int | None
    cause: str | None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job: as it was submitted, with all names resolved, and how it ran. Times are in UTC seconds.

    ``cancelled_by``: who cancelled it; None also if that is not known any more.
    ``env``, ``notify`` and ``failed_notifications`` are there for the owner and for administrators.
    ``priority_breakdown`` is there while the job is pending; it is None before the first ranking. ``array``: of an
    array, the tasks that are pending. ``stdout``, ``stderr``: the files on the job's first node. ``allocated``:
    what an exclusive job holds, or held in its last run, on all its nodes together; None for other jobs.
    ``waited_…_s``: the parts of its time up to its first start, or up to its end; None while it waits.
    ``steps``: the newest 20 of its present or last run, if it has any, of ``step_count``.
    """

    id: int
    user: str
    state: str
    name: str
    command: list[str]
    account: str
    queue: str
    partition: str
    qos: str
    application: str | None
    submitted_at: float
    eligible_at: float | None
    started_at: float | None
    ended_at: float | None
    reason: str | None
    reason_fact: Any
    expected_start_at: float | None
    reserved_nodes: list[str] | None
    exit_status: int | None
    signal: int | None
    message: str | None
    nodelist: str | None
    stdout: str | None
    stderr: str | None
    stdin: str | None
    cwd: str | None
    open_mode: str = "truncate"
    nodes: int
    min_nodes: int | None
    cores: float
    resources: dict[str, Amount]
    constraints: str | None
    exclusive: bool
    time_limit_s: float | None
    begin_at: float | None
    depends_on: list[Dependency]
    held: bool
    held_by: str | None
    urgency: int
    priority: int | None
    priority_class: str | None
    preemption_policy: str | None
    class_value: int
    fixed_priority: int | None
    fixed_by: str | None
    requeue: bool
    requeues: int
    allocation_id: int | None
    max_rss_bytes: int | None
    cpu_s: float | None
    measured: str | None
    key: str | None
    comment: str | None
    slurm_env: bool
    script_bytes: int | None
    array: str | None
    array_limit: int | None
    array_job: int | None
    array_task: int | None
    array_eligible: str | None
    array_unmet: str | None
    cancel_if_unmet: bool | None
    retry_of: int | None
    allocated: dict[str, Amount] | None = None
    waited_dependency_s: float | None = None
    waited_held_s: float | None = None
    waited_quota_s: float | None = None
    waited_resources_s: float | None = None
    waited_reserved_s: float | None = None
    waited_starting_s: float | None = None
    cancelled_by: str | None = None
    env: dict[str, str] | UnsetType = UNSET
    notify: Notify | UnsetType | None = UNSET
    interactive: Interactive | None = None
    priority_breakdown: Breakdown | UnsetType | None = UNSET
    devices: dict[str, list[str]] | UnsetType = UNSET
    failed_notifications: list[FailedNotification] | UnsetType = UNSET
    steps: list[JobStep] | UnsetType = UNSET
    step_count: int | UnsetType = UNSET


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a list. ``rank`` and ``priority``: None if it is not ranked. ``allocated``: as in a job's record.

    ``has_tasks``: of an array, whether some of its tasks have records of their own.
    """

    id: int
    user: str | None
    account: str | None
    queue: str
    partition: str
    qos: str | None
    application: str | None
    name: str | None
    state: str
    reason: str | None
    reason_fact: Any
    expected_start_at: float | None
    reserved_nodes: list[str] | None
    held: bool | None
    class_value: int | None
    priority_class: str | None
    urgency: int | None
    nodes: int
    cores: float
    resources: dict[str, Amount]
    constraints: str | None
    exclusive: bool | None
    time_limit_s: float | None
    begin_at: float | None
    depends_on: list[Dependency] | None
    requeues: int
    submitted_at: float
    eligible_at: float | None
    started_at: float | None
    ended_at: float | None
    exit_status: int | None
    signal: int | None
    nodelist: str | None
    comment: str | None
    array: str | None
    array_limit: int | None
    array_job: int | None
    array_task: int | None
    retry_of: int | None
    rank: int | None
    priority: int | None
    allocated: dict[str, Amount] | None = None
    has_tasks: bool | None = None


class AccountingRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a job used in its last run, and when. ``gpus``: how many devices of each model it had.

    ``reason``: why it waits. ``cause``: why it ended, if rankd or the kernel ended it, such as ``out_of_memory``.

    ``gpu_utilisation``: the mean of its devices since the start, 0 to 1. ``gpu_memory``: the most bytes in use on one.

    ``allocated``: as in a job's record. ``has_tasks``: as in a list. ``earlier_core_s``, ``earlier_gpu_s``,
    ``earlier_memory_byte_s``: cores, GPUs and bytes of memory times seconds of the runs before the last one, if it was
    queued again.

    Tasks of an array that have no records are one row, with the id of the array in ``id`` and ``array_job``:
    ``array_task`` is the index of a single one, ``array`` has those of several.

    ``waited_…_s``: as in a job's record.
    """

    id: int
    name: str | None
    user: str | None
    account: str | None
    queue: str
    partition: str
    qos: str | None
    state: str
    nodes: int
    cores: float
    resources: dict[str, Amount]
    time_limit_s: float | None
    requeues: int
    submitted_at: float
    eligible_at: float | None
    started_at: float | None
    ended_at: float | None
    exit_status: int | None
    signal: int | None
    nodelist: str | None
    max_rss_bytes: int | None
    cpu_s: float | None
    measured: str | None
    comment: str | None
    array: str | None
    array_limit: int | None
    array_job: int | None
    array_task: int | None
    cancelled_by: str | None = None
    gpus: dict[str, int] = {}
    allocated: dict[str, Amount] | None = None
    earlier_core_s: float = 0.0
    earlier_gpu_s: float = 0.0
    earlier_memory_byte_s: float = 0.0
    gpu_utilisation: float | None = None
    gpu_memory: int | None = None
    reason: str | None = None
    cause: str | None = None
    message: str | None = None
    cwd: str | None = None
    waited_dependency_s: float | None = None
    waited_held_s: float | None = None
    waited_quota_s: float | None = None
    waited_resources_s: float | None = None
    waited_reserved_s: float | None = None
    waited_starting_s: float | None = None
    has_tasks: bool | None = None


class JobsBehind(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the next page of jobs begins: fields of the next request."""

    after: int | UnsetType = UNSET
    before: int | UnsetType = UNSET


class JobPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of jobs. ``total``: the number on all pages, if the request counts. ``next``: there are more."""

    jobs: list[JobRow]
    total: int | UnsetType = UNSET
    next: JobsBehind | UnsetType = UNSET


class AccountingPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of what jobs used."""

    jobs: list[AccountingRow]
    total: int | UnsetType = UNSET
    next: JobsBehind | UnsetType = UNSET


class JobScript(msgspec.Struct, frozen=True, kw_only=True):
    """The script of a job, as it was submitted."""

    id: JobName
    script: str


class PastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a job, as recorded."""

    id: int
    job_id: int
    event: str
    state: str
    at: float
    actor: str
    cause: str | None
    detail: dict[str, Any] | None


class EventsAfter(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next page of events begins."""

    after: int


class JobHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of a job's events, oldest first."""

    events: list[PastEvent]
    next: EventsAfter | UnsetType = UNSET
