"""What a node's agent reports about an allocation; agents send it in this form."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
