"""Which file of a job is meant: of which attempt, on which node, and whether it still is that attempt's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from rankd.core.errors import Refused, Unavailable
from rankd.core.model.delivery import is_away
from rankd.core.model.job import FINAL_STATES
from rankd.core.near_name import cut

AWAY = frozenset({"down", "lost"})


class NodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One allocation of a job on one of its nodes. Times are UTC seconds; the paths are as the agent reported them."""

    allocation: int
    node: str
    started_at: float | None
    ended_at: float | None
    stdout: str | None
    stderr: str | None


class JobRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its allocations. ``runs``: by allocation, and in the order of its nodes.

    ``first_task``: of an array, a task to name, if possible one that has started; None: it is not an array.
    ``appends``: the job adds to its files. ``interactive``: a client can join it. ``reason``: why it waits, if it does.
    """

    name: int | str
    job: int
    owner: str
    state: str
    first_task: int | None
    appends: bool
    interactive: bool
    runs: Sequence[NodeRun]
    reason: str | None = None


class NodeNow(NamedTuple):
    """A node as the records have it."""

    state: str
    heartbeat_at: float


class Wanted(NamedTuple):
    """What is asked for. None: the last attempt, the first node."""

    stream: Literal["stdout", "stderr"]
    attempt: int | None = None
    node: str | None = None


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The run that is meant. ``nodes``: all of its attempt, which is number ``attempt`` of ``attempts``."""

    run: NodeRun
    nodes: list[str]
    attempt: int
    attempts: int
    path: str


def check_interactive(job: JobRuns) -> None:
    """Check that a client can join the job's own process.

    Raises:
        Refused: ``not_interactive``.
    """
    if not job.interactive:
        message = (
            f"job {job.name} was not started by `rankd run`, so it can't be joined; `rankd logs -f {job.name}` shows"
            f" its output, `rankd shell {job.name}` starts a shell in it"
        )
        raise Refused("not_interactive", message, "id", status=409)


def choose(job: JobRuns, wanted: Wanted) -> Chosen:
    """The run and the file that are meant.

    Raises:
        Refused: ``is_array``; ``not_started``; ``unknown_attempt``; ``unknown_node``; ``no_log``: no file is known;
        ``log_gone``: a later attempt has overwritten it.
    """
    attempts = _attempts(job)
    number = len(attempts) if wanted.attempt is None else wanted.attempt
    if number > len(attempts):
        had = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
        message = f"job {job.name} has had {had}, so there is no attempt {number}"
        raise Refused("unknown_attempt", message, "attempt", status=404)
    runs = attempts[number - 1]
    nodes = [run.node for run in runs]
    run = runs[0] if wanted.node is None else next((one for one in runs if one.node == wanted.node), None)
    if run is None:
        message = f"attempt {number} of job {job.name} ran on {', '.join(nodes)}, not on '{cut(wanted.node or '')}'"
        raise Refused("unknown_node", message, "node", status=404)
    path = _path(run, wanted.stream)
    if path is None:
        message = f"job {job.name} wrote no {wanted.stream} that rankd knows of on {run.node}"
        raise Refused("no_log", f"{message}; simulated nodes write none", "stream", status=404)
    later = (one for runs in attempts[number:] for one in runs if one.node == run.node)
    if not job.appends and any(path in (_path(one, "stdout"), _path(one, "stderr")) for one in later):
        message = f"attempt {number} of job {job.name} wrote to {path} on {run.node}, and a later attempt to the same"
        raise Refused("log_gone", f"{message}; name files with --output that differ", "attempt", status=404)
    return Chosen(run=run, nodes=nodes, attempt=number, attempts=len(attempts), path=path)


def check_all_started(job: JobRuns, chosen: Chosen) -> None:
    """Check that no node of the run is still about to start: until then, which one is the first is not known.

    Raises:
        Unavailable: ``node_starting``: ask again.
    """
    runs = [run for run in job.runs if run.allocation == chosen.run.allocation]
    late = next((run.node for run in runs if run.started_at is None and run.ended_at is None), None)
    if late is not None and job.state not in FINAL_STATES:
        raise Unavailable("node_starting", f"node {late} has not started job {job.name} yet; try again in a moment")


def _attempts(job: JobRuns) -> list[list[NodeRun]]:
    """The runs that started, by attempt; at least one."""
    if job.first_task is not None:
        task = f"{job.job}_{job.first_task}"
        message = f"job {job.name} is an array, whose tasks have an output each; name one, such as {task}"
        raise Refused("is_array", message, "id")
    found: dict[int, list[NodeRun]] = {}
    for run in job.runs:
        if run.started_at is not None:
            found.setdefault(run.allocation, []).append(run)
    if not found:
        raise Refused("not_started", _not_started(job), "id", status=409)
    return list(found.values())


def _not_started(job: JobRuns) -> str:
    if job.state in FINAL_STATES:
        return f"job {job.name} ended as {job.state} without a start, so it wrote nothing; ask `rankd show {job.name}`"
    why = f" ({job.reason})" if job.reason else ""
    return f"job {job.name} is {job.state}{why} and has written nothing: it has not started"


def _path(run: NodeRun, stream: str) -> str | None:
    return run.stdout if stream == "stdout" else run.stderr


def check_reachable(node: str, found: NodeNow | None, heartbeat_s: float, now: float) -> None:
    """Check that a node's agent can be asked.

    Raises:
        Refused: ``log_gone``: the node is not there any more.
        Unavailable: ``node_unreachable``.
    """
    if found is None:
        raise Refused("log_gone", f"node {node} is not part of this site any more, nor is what it wrote", status=404)
    if found.state in AWAY or is_away(found.heartbeat_at, heartbeat_s, now):
        raise unreachable(node)


def unreachable(node: str) -> Unavailable:
    """The error for a node whose agent does not answer."""
    return Unavailable("node_unreachable", f"the agent of node {node} does not answer; try again when the node is up")
