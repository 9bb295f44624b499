"""The messages. Requests by users refuse unknown fields; what services send each other tolerates them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.model.job import JobRequest

MAX_JOBS_PER_MESSAGE = 10_000

AtLeastOne = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class _FromUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A typo must not be ignored."""


class _Internal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tolerates fields of newer versions."""


class JobBatch(_FromUser, frozen=True, kw_only=True):
    """Many jobs; each is decoded by itself, so that one bad job does not spoil the others."""

    jobs: list[msgspec.Raw]
    atomic: bool = False


class JobFilter(_FromUser, frozen=True, kw_only=True):
    """Which jobs: all conditions hold; lists are alternatives. ``after``: ids above it; ``limit``: at most so many."""

    id: int | None = None
    ids: list[int] | None = None
    users: list[str] | None = None
    accounts: list[str] | None = None
    queues: list[str] | None = None
    partitions: list[str] | None = None
    states: list[str] | None = None
    names: list[str] | None = None
    qos: list[str] | None = None
    after: int | None = None
    limit: AtLeastOne = 100_000


class JobList(JobFilter, frozen=True, kw_only=True):
    """A page of jobs: newest first, ids below ``before``; or oldest first, ids above ``after``.

    ``limit``: a page has at most 1,000. ``count``: say how many there are on all pages.
    """

    before: int | None = None
    count: bool = False
    limit: AtLeastOne = 1_000


class RankPlace(_FromUser, frozen=True, kw_only=True):
    """The last job of a page of priorities, and its rank then."""

    job: int
    rank: int | None


class PriorityList(JobFilter, frozen=True, kw_only=True):
    """A page of pending jobs by rank. ``behind``: where the last one ended."""

    behind: RankPlace | None = None
    count: bool = False
    limit: AtLeastOne = 1_000


class TableFilter(_FromUser, frozen=True, kw_only=True):
    """A page of a list of nodes, queues or shares. ``after``: the last one's key."""

    after: list[str] | None = None
    limit: AtLeastOne = 1_000


class AccountingFilter(JobList, frozen=True, kw_only=True):
    """Also: jobs that had not ended before ``since`` and were submitted until ``until``, in UTC seconds."""

    since: float | None = None
    until: float | None = None


class JobSelection(_FromUser, frozen=True, kw_only=True):
    """Jobs to act upon, by one id, several, or a filter. ``dry_run``: say what would be done, and do nothing."""

    id: int | None = None
    ids: list[int] | None = None
    filter: JobFilter | None = None
    dry_run: bool = False


class DeadLetterSelection(_FromUser, frozen=True, kw_only=True):
    """Dead letters by id."""

    ids: list[int]


class DeadLetterFilter(_FromUser, frozen=True, kw_only=True):
    """Which dead letters; an ordinary user sees own ones. ``all``: also those that were retried or dropped."""

    ids: list[int] | None = None
    users: list[str] | None = None
    all: bool = False
    after: int | None = None
    limit: AtLeastOne = 1_000


class JobShow(_FromUser, frozen=True, kw_only=True):
    """One job."""

    id: int


class HistoryRequest(_FromUser, frozen=True, kw_only=True):
    """A page of one job's events. ``after``: the last one's id."""

    id: int
    after: int | None = None
    limit: AtLeastOne = 1_000


class NodeSelection(_FromUser, frozen=True, kw_only=True):
    """Nodes to act upon, and why."""

    node: str | None = None
    nodes: list[str] | None = None
    reason: str | None = None


class NodeFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A node that could not be acted upon."""

    node: str
    code: str
    message: str


class NodeReply(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes were changed, and which not and why."""

    done: list[str]
    failed: list[NodeFailed]


class ClassName(_FromUser, frozen=True, kw_only=True):
    """A priority class, by name."""

    name: str


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every refusal: a stable code, what to do, and which field."""

    code: str
    message: str
    field: str | None = None


class Accepted(_Internal, frozen=True, kw_only=True):
    """A job of a batch that was taken."""

    index: int
    id: int


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was not."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each job of a batch, by its place in it."""

    accepted: list[Accepted]
    rejected: list[Rejected]


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A job that could not be acted upon."""

    id: int
    code: str
    message: str


class SelectionReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which jobs were changed, or would be, and which not and why.

    ``done_count``, ``failed_count``: how many there are, where the lists hold the first of them alone. ``last``:
    where the filter's limit was reached, the last job that was looked at; ask again with ``after`` it.
    """

    done: list[int]
    failed: list[Failed]
    done_count: int | None = None
    failed_count: int | None = None
    last: int | None = None


class SettledLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was retried or dropped, and the jobs that it became."""

    id: int
    jobs: list[int] = []


class LettersReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of dead letters; ``failed`` ones stay with the reason of this try."""

    done: list[SettledLetter]
    failed: list[Failed]


class NodeRegistration(_Internal, frozen=True, kw_only=True):
    """What a node has. Amounts as users write them; ``running`` are allocations that it still runs.

    ``key``: a secret of an agent with several nodes, the same for all; with it the agent may speak for them together.
    ``instance``: the random id of the agent's state directory, by which two agents of one name are told apart.
    """

    partition: str = "default"
    resources: dict[str, int | float | str]
    labels: dict[str, str] = {}
    agent: str
    running: list[int] = []
    key: str = ""
    instance: str = ""


class NodeRegistered(_Internal, frozen=True, kw_only=True):
    """The answer: how the agent is to behave.

    ``max_processes``: how many processes and threads a job may have at once on a node.
    ``outputs_s``: seconds after which the agent deletes output files; None: never.
    ``end``: what the node runs although its allocation has ended in the records; others may do it by now.
    ``waiting``: nodes that have something to take.
    """

    heartbeat_s: float
    grace_s: float
    max_processes: int = 4096
    outputs_s: float | None = None
    end: list[int] = []
    waiting: list[str] = []


LONGEST_UNABLE = 500


class Heartbeat(_Internal, frozen=True, kw_only=True):
    """An agent's sign of life, for ``nodes``; none: for the subject's.

    Other nodes than the subject's count if they were registered with the same ``key``. Nodes that were registered with
    another ``instance`` do not.
    ``unable``: why the agent can run no jobs on them at present, in :data:`LONGEST_UNABLE` characters; None if it can.
    """

    nodes: list[str]
    key: str = ""
    instance: str = ""
    unable: str | None = None


class StartJob(_Internal, frozen=True, kw_only=True):
    """Start a job under an allocation on this node. ``rank`` is the node's place in ``nodes``."""

    allocation: int
    job: int
    user: str
    name: str
    nodes: list[str]
    rank: int
    resources: dict[str, int]
    request: JobRequest


class StartOrder(_Internal, frozen=True, kw_only=True):
    """A :class:`StartJob` as the intake sends it: what the records hold as JSON goes out as it is."""

    allocation: int
    job: int
    user: str
    name: str
    nodes: msgspec.Raw
    rank: int
    resources: msgspec.Raw
    request: msgspec.Raw


class Waits(_Internal, frozen=True, kw_only=True):
    """The scheduler's hint to a node's agent: something waits for the node. It says nothing else on purpose."""


class Take(_Internal, frozen=True, kw_only=True):
    """An agent asks what its node is to start and to end.

    ``known``: every allocation of the node that it runs or has still to report. The answer then also holds what it
    was given before and does not know.
    """

    agent: str
    known: list[int] | None = None
    instance: str = ""


class Taken(_Internal, frozen=True, kw_only=True):
    """What the node is to start, now recorded as taken by it, and which allocations it is to end.

    ``more``: there is more than one answer may hold.
    """

    starts: list[StartOrder] = []
    cancels: list[int] = []
    more: bool = False


class AllocationMessage(_Internal, frozen=True, kw_only=True):
    """:class:`Taken`, as the agent reads it."""

    starts: list[StartJob] = []
    cancels: list[int] = []
    more: bool = False


class Report(_Internal, frozen=True, kw_only=True):
    """What happened to an allocation on one node.

    An end says when it had started: reports of one allocation may arrive in another order than they were sent.
    ``exit_status`` is the command's, ``signal`` the one that ended it; ``cause`` says why the agent ended it
    (``timeout``, ``cancel``, ``agent_stopped``), could not start it (``start_failed``), lost sight of it (``lost``), or
    that it went over its memory limit (``out_of_memory``). ``measured`` says how memory and processor time were: of
    the job's control group (``cgroup``), of the processes that its first process waited for (``wait``), or the time
    (``cgroup_cpu``) or the memory (``cgroup_memory``) alone by the group.
    """

    allocation: int
    job: int
    kind: Literal["started", "ended"]
    at: float
    started_at: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None
    message: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    max_rss_bytes: int | None = None
    cpu_s: float | None = None
    measured: Annotated[str, msgspec.Meta(max_length=16)] | None = None


class ReportsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """So many reports are durable."""

    taken: int


class ReportMessage(_Internal, frozen=True, kw_only=True):
    """Several reports of one node, in the order in which things happened; ``instance`` as in its registration."""

    reports: list[Report]
    instance: str = ""


class Committed(_Internal, frozen=True, kw_only=True):
    """A commit that others may act upon: by whom."""

    service: str


class RankingEvent(_Internal, frozen=True, kw_only=True):
    """A new generation of the ranking is visible."""

    generation: int
    kind: str
    at: float
    new_jobs: int
    jobs: int


class SchedulerEvent(_Internal, frozen=True, kw_only=True):
    """``stale``: no generation came for long after this one, which stays in force; ``fresh``: one has come."""

    event: str
    at: float
    generation: int


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one job, as published."""

    id: int
    job: int
    event: str
    state: str
    at: float
    actor: str
    cause: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A submission on the enqueue subject that could not be accepted, and why.

    ``submission`` is the beginning, of at most 16 KiB, of a job, or of the whole message if it can't be read; it is
    left out (None) of the user's events. ``bytes``: the size of all of it. ``message_id`` is the sender's.
    """

    id: int
    user: str
    at: float
    message_id: str | None
    code: str
    message: str
    field: str | None
    bytes: int = 0
    submission: str | None = None


class JobEvents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Transitions of one user's jobs in one publication, oldest first; or submissions that became no job."""

    events: list[Transition]
    refused: list[DeadLetter] = []


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one node, as published."""

    id: int
    node: str
    event: str
    at: float
    actor: str
    reason: str | None = None


class NodeEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one node in one publication, oldest first."""

    events: list[NodeChange]


class QueueChange(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one queue, as published: ``made``, ``changed``, ``removed``."""

    id: int
    partition: str
    queue: str
    event: str
    at: float
    actor: str


class QueueEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one queue in one publication, oldest first."""

    events: list[QueueChange]


class AdapterEvent(_Internal, frozen=True, kw_only=True):
    """What happened to an input from outside: ``changed``, ``failed`` or ``recovered``; ``rows`` are in force."""

    adapter: str
    event: str
    at: float
    rows: int = 0
    message: str | None = None


class FactorEvent(_Internal, frozen=True, kw_only=True):
    """A factor's values can't be had, its last good ones stay (``failed``); or they can again (``recovered``)."""

    factor: str
    event: str
    at: float
    message: str | None = None


class Health(_Internal, frozen=True, kw_only=True):
    """Whether a service is ready, asked of itself: database and bus included.

    ``code`` says in one word why it is not; ``detail`` says it in a sentence.
    """

    service: str
    ready: bool
    pid: int
    detail: str = ""
    code: str = ""
