"""What the agent's service asks of those who run jobs: a real node, or simulated ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rankd.wire.message import AllocationMessage, Report


class Order(NamedTuple):
    """What a node was given: what it is to start and to end."""

    node: str
    message: AllocationMessage


class Runner(Protocol):
    """Starts and ends jobs, and reports it. Knows an allocation until its end is recorded.

    ``grace_s``: how long a job may take to end after it was told to. ``max_processes``: a job's, at once.
    ``outputs_s``: how long output files are kept; None: for ever. ``instance``: the id of the state directory; empty
    where there is none.
    """

    grace_s: float
    max_processes: int
    outputs_s: float | None
    instance: str

    @property
    def unable(self) -> str | None:
        """Why no jobs can be run at present, as a sentence without a full stop; None if they can."""

    async def recover(self, group: asyncio.TaskGroup) -> None:
        """Take over what an earlier agent left, and report what has ended of it; tasks of this group go on watching."""

    async def take(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> None:
        """Carry out, in tasks of this group; returns once every start is recorded here."""

    def unknown(self, node: str, allocations: Sequence[int]) -> list[int]:
        """Those of which nothing is known here."""

    def known(self, node: str) -> list[int]:
        """Allocations of this node that run, or whose end is still to be recorded."""

    def cancel(self, node: str, allocations: Sequence[int]) -> None:
        """End these, cause ``cancel``; those that are not known or have ended are passed."""

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:
        """The intake has recorded these reports."""

    def running(self, node: str) -> list[int]:
        """Allocations of this node that have not ended."""

    def end_all(self, *, at_once: bool) -> None:
        """Tell everything to end, cause ``agent_stopped``; ``at_once`` without a grace time."""

    async def all_ended(self) -> None:
        """Return once nothing runs and all ends are handed to the reporter."""

    async def leave(self) -> None:
        """Let go of what runs: it goes on without this agent. Simulated jobs can't, and end."""
