"""The live state from which a forecast begins: what runs, what waits in the ranking, and what waits for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from rankd.core.placement.node_set import Held
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.placement.problem import PartitionProblem, Tenant
from rankd.core.ranking.columns import IntArray

NO_JOB = 0


class OpenWork(NamedTuple):
    """An open allocation. ``limit_s`` is infinite if the job has no time limit.

    ``share``: the part of the limit that the job is expected to use, 0 to 1. ``array``: of a task, its array, else 0.
    ``devices``: the sets of its devices, by row of the partition's nodes.
    """

    job: int
    begun_at: float
    limit_s: float
    share: float
    tenant: Tenant
    array: int = NO_JOB
    devices: Mapping[int, int] = {}


class Need(NamedTuple):
    """A job or an array that another one waits for, until it has ``begun`` or until all of it has ``ended``."""

    job: int
    until: Literal["begun", "ended"]


class LaterJob(NamedTuple):
    """A pending job that is not eligible yet: it waits for a time, for other jobs, or for both.

    ``kind``: its kind in the partition's problem. ``begin_at``: 0 if it waits for no time. ``tasks``: of an array, the
    number of tasks; else 1.
    """

    job: int
    queue: int
    kind: int
    begin_at: float
    needs: tuple[Need, ...]
    tasks: int = 1
    submitted_at: float = 0.0
    application: int = -1


class LivePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition now. ``problem.holds`` is a :class:`.Held`.

    ``running``: the open allocations. ``owners`` int64 (n,): for each row of ``holds``, the place of its allocation in
    ``running``. ``later``: by the order in which they come after all ranked jobs.
    """

    problem: PartitionProblem
    node_sort: NodeSortPolicy
    running: Sequence[OpenWork] = ()
    owners: IntArray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    later: Sequence[LaterJob] = ()

    @property
    def held(self) -> Held:
        """What the open allocations hold.

        Raises:
            TypeError: the problem has holds in another form.
        """
        if not isinstance(self.problem.holds, Held):
            raise TypeError("a forecast needs the holds of a partition as columns")
        return self.problem.holds


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """All partitions at the instant ``now``, UTC seconds.

    ``shares``: the part of its time limit that each waiting job is expected to use, by job; ``site_share`` for others.
    """

    now: float
    partitions: Sequence[LivePartition]
    shares: Mapping[int, float] = {}
    site_share: float = 1.0
