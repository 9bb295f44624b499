"""Publications of services: commits, new rankings, and events of jobs, nodes, queues, adapters and factors."""

from __future__ import annotations

import msgspec

from rankd.wire.dead_letter import DeadLetter


class Committed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A service has committed something that other services may need.

    ``only_new_jobs``: nothing but new jobs, which can't be started before they are ranked.
    """

    service: str
    only_new_jobs: bool = False


class RankingEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new generation of the ranking is visible."""

    generation: int
    kind: str
    at: float
    new_jobs: int
    jobs: int


class SchedulerEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``stale``: no generation has come for long after this one, which stays in force. ``fresh``: one has come."""

    event: str
    at: float
    generation: int


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one job, as published. ``via``: the gateway that vouched for the actor; None where none did.

    ``array_job`` and ``array_task``: of a task, its array and its index; left out for other jobs. ``notifies``: the
    event may be one that the job's user is notified of; left out otherwise.
    """

    id: int
    job: int
    event: str
    state: str
    at: float
    actor: str
    cause: str | None = None
    via: str | None = None
    array_job: int | msgspec.UnsetType = msgspec.UNSET
    array_task: int | msgspec.UnsetType = msgspec.UNSET
    notifies: bool | msgspec.UnsetType = msgspec.UNSET


class UserTransition(Transition, frozen=True, kw_only=True):
    """A transition, and whose job it is."""

    user: str


class JobEventList(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``job.events``, oldest first. ``last``: up to which id was looked. ``more``: ask again after it."""

    events: list[UserTransition]
    last: int
    more: bool


class JobEvents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Transitions of one user's jobs in one publication, oldest first; or submissions that did not become jobs."""

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
    """One event of one queue, as published: ``made``, ``changed``, ``removed``.

    ``actor``: ``configuration``, or the user whose first job made the queue; None if users are hidden from each other.
    """

    id: int
    partition: str
    queue: str
    event: str
    at: float
    actor: str | None


class QueueEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one queue in one publication, oldest first."""

    events: list[QueueChange]


class AdapterEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to an adapter's input: ``changed``, ``failed`` or ``recovered``; ``rows`` are in force."""

    adapter: str
    event: str
    at: float
    rows: int = 0
    message: str | None = None


class FactorEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``failed``: a factor returns no values, so its last good ones stay. ``recovered``: it returns values again."""

    factor: str
    event: str
    at: float
    message: str | None = None
