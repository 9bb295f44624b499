"""What a node's agent reports about an allocation. This is the format of the message."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to an allocation on one node.

    A report of an end has ``started_at`` too, because reports of one allocation may arrive in another order than they
    were sent. ``exit_status`` is that of the command. ``signal`` is the signal that ended it.

    ``cause``: the agent ended the command (``timeout``, ``cancel``, ``agent_stopped``), could not start it
    (``start_failed``), or lost track of it (``lost``); or the node's prolog has failed (``prolog_failed``); or the
    kernel killed processes of the job for memory (``out_of_memory``).

    ``measured``: where memory and processor time were read. ``cgroup``: both from the job's control group. ``wait``:
    both from the processes that the job's first process waited for. ``cgroup_cpu`` or ``cgroup_memory``: only the
    processor time or only the memory from the control group.

    ``drain``: why the node must not take more jobs: its prolog or epilog has failed.
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
    drain: str | None = None
