"""What the agent's service needs from a runner of jobs: a real node, or simulated ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rankd.services.agent.carried_out import CarriedOut
from rankd.services.agent.device_monitor import DeviceMonitor
from rankd.services.keeper.proc import Identity
from rankd.wire.message import AllocationMessage, NodeHooks, Report


class Order(NamedTuple):
    """A node's orders: which allocations it has to start and to end."""

    node: str
    message: AllocationMessage


class Around(NamedTuple):
    """What sessions need of a node: whom the jobs of a user run as (None: the agent's user); whether one runs."""

    identity: Callable[[str], Identity | None]
    is_running: Callable[[int], bool]
    attach: Callable[..., Any] | None = None


class Runner(Protocol):
    """Starts and ends jobs, and reports that. Knows an allocation until its end is recorded.

    ``grace_s``: seconds between the request to end a job and its kill. ``max_processes``: the most processes of a job
    at once. ``outputs_s``: seconds for which output files are kept; None means for ever. ``orphan_s``: seconds after
    which an interactive job without a client is ended. ``hooks``: programs around jobs. ``instance``: the id of the
    state directory; empty without one. ``monitor`` watches the node's cards; None if they are not watched.
    ``confinement``: whether jobs can be kept from devices of other jobs, in words; empty if nothing is known about it.
    ``carried_out``: orders for running jobs.
    """

    grace_s: float
    max_processes: int
    outputs_s: float | None
    orphan_s: float
    hooks: NodeHooks
    instance: str
    confinement: str
    carried_out: CarriedOut

    def use_cluster(self, name: str) -> None:
        """Jobs that start from now on belong to the cluster of this name."""

    @property
    def around(self) -> Around | None:
        """What sessions need; None if there are no jobs to have sessions with."""

    @property
    def monitor(self) -> DeviceMonitor | None:
        """What watches the node's cards."""

    @property
    def unable(self) -> str | None:
        """Why jobs can't be run at present, as a sentence without a full stop; None if they can."""

    async def recover(self, group: asyncio.TaskGroup) -> None:
        """Take over an earlier agent's jobs, and report those that have ended. Tasks of ``group`` watch the others."""

    async def take(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> Sequence[str]:
        """Carry out the orders, in tasks of ``group``; returns once every start is recorded here.

        Returns why some starts have to wait; these are to be requested again.
        """

    def unknown(self, node: str, allocations: Sequence[int]) -> list[int]:
        """Those of these allocations that this runner does not know."""

    def known(self, node: str) -> list[int]:
        """The allocations of this node that run, or whose end is not recorded yet."""

    def cancel(self, node: str, allocations: Sequence[int]) -> None:
        """End these allocations with the cause ``cancel``. Unknown and ended ones are skipped."""

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:
        """The intake has recorded these reports."""

    def running(self, node: str) -> list[int]:
        """Allocations of this node that have not ended."""

    def end_all(self, *, at_once: bool) -> None:
        """End all jobs with the cause ``agent_stopped``; ``at_once`` without a grace time."""

    async def all_ended(self) -> None:
        """Return once no job runs and all ends are handed to the reporter."""

    async def leave(self) -> None:
        """Let the running jobs continue without this agent. Simulated jobs cannot, and end."""
