"""A job on one of its nodes, as its processes know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rankd.core.model.array import TaskOfArray
from rankd.core.model.device import AssignedDevice

CLUSTER = "rankd"
"""The name of a site that has none."""


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A job on one of its nodes. ``rank`` is the node's index in ``nodes``, from 0.

    ``resources`` are per node: vcore in thousandths, memory in bytes. ``array``: if it is a task of an array.
    ``devices``: those on this node, with their vendors by id. ``confines``: the job can't open the others.
    ``counts_gpus``: the job may use GPUs, but rankd does not know which. Then no variable names or hides any.
    ``whole``: of an exclusive job, the cores (thousandths) that it holds on each of its nodes.
    ``uid``, ``gid``: of the process. ``requeues``: how often the job was queued again. ``at``: the time of the start.
    ``cluster``: the name of the site, for Slurm's variables.
    """

    job: int
    allocation: int
    user: str
    name: str
    nodes: list[str]
    rank: int
    resources: Mapping[str, int] = {}
    account: str = ""
    queue: str = ""
    qos: str = ""
    array: TaskOfArray | None = None
    devices: Sequence[AssignedDevice] = ()
    vendors: Mapping[str, str] = {}
    confines: bool = False
    counts_gpus: bool = False
    uid: int | None = None
    gid: int | None = None
    requeues: int = 0
    whole: Sequence[int] = ()
    at: float | None = None
    cluster: str = CLUSTER

    @property
    def node(self) -> str:
        """The node's name."""
        return self.nodes[self.rank]
