"""A job: its request, its states, and the events that change it.

`JobRequest` is the format of the bus and of ``rankd evaluate``. Only the transition table below defines the state after
an event. The store applies the table in the transaction that records the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.errors import InvalidTransition
from rankd.core.model import job_state
from rankd.core.model.array import ArrayRequest
from rankd.core.model.index_set import count
from rankd.core.model.notification import Notify
from rankd.core.model.quantity import Amount, Resources
from rankd.core.model.queue import Queue

URGENCY_HOLD = 0
URGENCY_DEFAULT = 16
URGENCY_EXPEDITE = 31


State = job_state.State
FINAL_STATES = job_state.FINAL_STATES
ENDED_BADLY = job_state.ENDED_BADLY
ACTIVE_STATES = job_state.ACTIVE_STATES


class Event(StrEnum):
    """What can happen to a job. Each event is recorded in ``job_event``.

    ``SPLIT``: tasks of an array get records of their own; it is an event of the array and the first one of each task.
    ``RUN_OUT``: the same, with the array's last pending task. ``MATCH``: tasks of an array that waits by index may
    start, or are cancelled, because their counterparts have ended. ``IDLE``: a running job has not used its GPUs for
    ``devices.idle_notify_s``; it goes on. ``EXCEED_MEMORY``: the kernel killed processes of it for memory. ``SIGNAL``:
    its processes are to get a signal. ``UPDATE`` of a running job: it has another time limit.
    """

    SUBMIT = "submit"
    HOLD = "hold"
    RELEASE = "release"
    UPDATE = "update"
    ELIGIBLE = "eligible"
    ALLOCATE = "allocate"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    TIME_OUT = "time_out"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    TAKE_BACK = "take_back"
    LOSE_NODE = "lose_node"
    EXCEED_MEMORY = "exceed_memory"
    SPLIT = "split"
    RUN_OUT = "run_out"
    MATCH = "match"
    IDLE = "idle"
    SIGNAL = "signal"


RUNS_ON = (Event.IDLE, Event.SIGNAL, Event.UPDATE)
"""Events after which a running job runs on."""
_WAITING = (Event.HOLD, Event.RELEASE, Event.UPDATE, Event.ELIGIBLE, Event.SPLIT, Event.MATCH)
_ENDS = {
    Event.COMPLETE: State.COMPLETED,
    Event.FAIL: State.FAILED,
    Event.TIME_OUT: State.TIMEOUT,
    Event.CANCEL: State.CANCELLED,
    Event.REQUEUE: State.PENDING,
    Event.LOSE_NODE: State.NODE_LOST,
    Event.EXCEED_MEMORY: State.OUT_OF_MEMORY,
}

TRANSITIONS: Mapping[tuple[State | None, Event], State] = MappingProxyType(
    {
        (None, Event.SUBMIT): State.PENDING,
        (None, Event.SPLIT): State.PENDING,
        **{(State.PENDING, event): State.PENDING for event in _WAITING},
        (State.PENDING, Event.CANCEL): State.CANCELLED,
        (State.PENDING, Event.RUN_OUT): State.RUNNING,
        (State.PENDING, Event.ALLOCATE): State.ALLOCATED,
        (State.ALLOCATED, Event.START): State.RUNNING,
        **{(State.ALLOCATED, event): state for event, state in _ENDS.items()},
        (State.ALLOCATED, Event.TAKE_BACK): State.PENDING,
        **{(State.RUNNING, event): State.RUNNING for event in RUNS_ON},
        **{(State.RUNNING, event): state for event, state in _ENDS.items()},
    }
)


def next_state(job: int, state: State | None, event: Event) -> State:
    """The state after ``event``. A job that is not submitted yet has the state ``None``.

    Raises:
        InvalidTransition: the state does not allow the event.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition(job, state or "new", event) from None


def state_diagram() -> str:
    """The transition table as a Mermaid diagram: one arrow per pair of states, labelled with its events."""
    arrows: dict[tuple[State | None, State], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(event)
    lines = [f"    {before or '[*]'} --> {after}: {', '.join(events)}" for (before, after), events in arrows.items()]
    ends = [f"    {state} --> [*]" for state in State if state in FINAL_STATES]
    return "\n".join(["stateDiagram-v2", *lines, *ends])


SINGLETON = "singleton"
BY_INDEX = "aftercorr"


class Dependency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on another job, before this one becomes eligible.

    The other job has completed (``afterok``), has ended in another way (``afternotok``), has ended in any way
    (``afterany``), or has begun or ended (``after``). ``job`` is a job or an array (17), or a task (``17_3``).
    ``aftercorr``: each task of this array waits until the task of the same index of that array has completed.
    ``singleton``, without a job: all earlier jobs of the same user and name have ended.
    """

    type: Literal["afterok", "afterany", "afternotok", "after", "aftercorr", "singleton"]
    job: int | str | None = None


class Interactive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job whose input and output a client follows while it runs (``rankd run``).

    ``pty``: it runs in a terminal of ``rows`` and ``columns``. ``input``: the client has input for it.
    ``detach_ok``: it runs on when no client follows it any more; otherwise it is ended after ``sessions.orphan_s``.
    """

    pty: bool = False
    input: bool = True
    rows: Annotated[int, Meta(ge=1, le=65_535)] = 24
    columns: Annotated[int, Meta(ge=1, le=65_535)] = 80
    detach_ok: bool = False


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as it is submitted. Only ``command`` is required.

    Amounts in ``resources`` are per node: vcore in cores (or ``500m``), memory in bytes (or ``8Gi``).
    Times are UTC seconds. With ``script``, the node runs this text with the arguments of ``command``; its first word is
    only a name. The records keep the text apart from the rest of the request.
    """

    command: list[str]
    script: str | None = None
    name: str | None = None
    user: str | None = None
    account: str | None = None
    queue: str | None = None
    qos: str | None = None
    application: str | None = None
    priority_class: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    urgency: int = URGENCY_DEFAULT
    partition: str | None = None
    nodes: int = 1
    min_nodes: int | None = None
    resources: dict[str, Amount] = msgspec.field(default_factory=lambda: {"vcore": 1})
    constraints: str | None = None
    exclusive: bool = False
    time_limit_s: float | None = None
    begin_at: float | None = None
    depends_on: list[Dependency] = []
    cancel_if_unmet: bool | None = None
    array: str | None = None
    requeue: bool = True
    env: dict[str, str] = {}
    slurm_env: bool = False
    cwd: str | None = None
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    open_mode: Literal["truncate", "append"] = "truncate"
    key: str | None = None
    comment: str | None = None
    held: bool = False
    notify: Notify | None = None
    interactive: Interactive | None = None


CHANGEABLE_FIELDS = (
    "urgency",
    "queue",
    "partition",
    "qos",
    "account",
    "application",
    "priority_class",
    "priority",
    "preemption_policy",
    "time_limit_s",
    "nodes",
    "min_nodes",
    "resources",
    "constraints",
    "exclusive",
    "requeue",
    "begin_at",
    "depends_on",
    "cancel_if_unmet",
    "name",
    "comment",
)
"""The fields of a job's request that an update may change."""


def name_of(request: JobRequest) -> str:
    """The job's name. The default is the name of its program, without the path."""
    return request.name or request.command[0].rsplit("/", 1)[-1]


class AcceptedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job after admission. All names are resolved and all amounts parsed.

    ``array``: the tasks of an array; None for a single job. ``groups``: the groups of its user. ``made``: the new
    queues on the path of its queue, parents first. ``retry_of``: the ended job that it repeats.
    ``remarks``: what its user should know, although it is accepted. ``bounds``: of an exclusive job, the maxima of its
    queues and the limits of its user and groups, each with its name: whole nodes may be more.
    """

    user: str
    account: str
    queue: str
    qos: str
    partition: str
    class_value: int
    priority_class: str | None
    preemption_policy: str
    urgency: int
    held: bool
    nodes: int
    min_nodes: int
    resources: Resources
    request: JobRequest
    groups: tuple[str, ...] = ()
    made: tuple[Queue, ...] = ()
    array: ArrayRequest | None = None
    retry_of: int | None = None
    remarks: tuple[str, ...] = ()
    bounds: tuple[tuple[str, Resources], ...] = ()

    @property
    def n_tasks(self) -> int:
        """The number of tasks of an array; 1 for a single job."""
        return 1 if self.array is None else count(self.array.indices)
