"""Messages about nodes: registration, heartbeats, and an administrator's requests."""

from __future__ import annotations

import msgspec


class NodeSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class NodeRegistration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class NodeRegistered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent's sign of life, for ``nodes``; none: for the subject's.

    Other nodes than the subject's count if they were registered with the same ``key``. Nodes that were registered with
    another ``instance`` do not.
    ``unable``: why the agent can run no jobs on them at present, in :data:`LONGEST_UNABLE` characters; None if it can.
    """

    nodes: list[str]
    key: str = ""
    instance: str = ""
    unable: str | None = None
