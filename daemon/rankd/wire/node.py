"""Messages about nodes: registration, heartbeats, and an administrator's requests."""

from __future__ import annotations

import msgspec

from rankd.core.model.device import ListedDevice
from rankd.core.model.job_place import CLUSTER


class NodeSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes to change, and the reason."""

    node: str | None = None
    nodes: list[str] | None = None
    reason: str | None = None


class NodeFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A node that could not be changed."""

    node: str
    code: str
    message: str


class NodeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that were changed, and those that were not, with the reason."""

    done: list[str]
    failed: list[NodeFailed]


LONGEST_CONFINEMENT = 500


class NodeRegistration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node has. Amounts are in users' units; ``running`` are the allocations that it still runs.

    ``key``: a secret that is the same for all nodes of an agent; with it, one message may represent them all.
    ``instance``: the random id of the agent's state directory, which distinguishes two agents of one name.
    ``confinement``: whether jobs can be kept from devices of other jobs, in words; empty for a node without devices.
    """

    partition: str = "default"
    resources: dict[str, int | float | str]
    labels: dict[str, str] = {}
    agent: str
    running: list[int] = []
    key: str = ""
    instance: str = ""
    devices: list[ListedDevice] = []
    confinement: str = ""


class NodeHooks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Programs that an agent runs with its own rights: paths, and seconds (``[node]`` in ``rankd.toml``)."""

    prolog: str | None = None
    epilog: str | None = None
    timeout_s: float = 120.0
    health_check: str | None = None
    health_check_period_s: float = 300.0


class NodeRegistered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a registration or heartbeat: how the agent has to behave.

    ``max_processes``: how many processes and threads a job may have at once on a node.
    ``outputs_s``: seconds after which the agent deletes output files; None: never.
    ``orphan_s``: seconds after which an interactive job without a client is ended.
    ``cluster``: the name of the site, for Slurm's variables.
    ``hooks``: the programs that it runs around jobs, and to check the node; None: none.
    ``end``: allocations that the node runs but that have ended in the records; other nodes may run the jobs by now.
    ``waiting``: nodes for which allocations wait. ``notes``: what the agent's log should say.
    """

    heartbeat_s: float
    grace_s: float
    max_processes: int = 4096
    outputs_s: float | None = None
    orphan_s: float = 60.0
    cluster: str = CLUSTER
    hooks: NodeHooks | None = None
    end: list[int] = []
    waiting: list[str] = []
    notes: list[str] = []


LONGEST_UNABLE = 500


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent's sign of life for ``nodes``; an empty list means the subject's node.

    Nodes other than the subject's count if they were registered with the same ``key``. Nodes that were registered with
    another ``instance`` do not count.
    ``unable``: why the agent can't run jobs on them at present, in :data:`LONGEST_UNABLE` characters; None if it can.
    ``health``: why the last health check of the nodes has failed, in as many characters; empty if it has succeeded;
    None if there was none.
    """

    nodes: list[str]
    key: str = ""
    instance: str = ""
    unable: str | None = None
    health: str | None = None
