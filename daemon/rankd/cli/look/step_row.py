"""The steps of jobs as rows of ``rankd acct``, as sacct lists them: ``17.0`` below 17."""

from __future__ import annotations

import os.path
import shlex
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.model.nodelist import unfold
from rankd.core.model.wait_word import WAITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.cli.common.record_source import Source
    from rankd.store.engine.reading import Row

MOST_JOBS = 1_000
"""Each costs a question of its own."""
_OF_THE_JOB = (
    "cpu_s",
    "max_rss_bytes",
    "measured",
    "gpu_utilisation",
    "gpu_memory",
    "time_limit_s",
    "message",
    *WAITED,
)
"""What is known only of the job as a whole."""


def with_steps(source: Source, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows, each with those of its steps behind it; and what to say of steps that are left out.

    Raises:
        Refused: ``usage``: these are too many jobs.
    """
    if len(rows) > MOST_JOBS:
        raise Refused("usage", f"--steps takes at most {MOST_JOBS} jobs, not {len(rows)}; name some", "steps")
    found: list[Row] = []
    said: list[str] = []
    for row in rows:
        found.append(row)
        if not row.get("started_at") or row.get("tasks"):
            continue
        name = f"{row['array_job']}_{row['array_task']}" if row.get("array_job") else row["id"]
        record = source.job(name)
        steps = record.get("steps") or []
        found += [step_row(row, step) for step in steps]
        if (count := record.get("step_count", 0)) > len(steps):
            said.append(f"job {name} had {count} steps; the newest {len(steps)} are shown, the view job_step has more")
    return found, said


def step_row(job: Row, step: Row) -> Row:
    """A step as a row of its job. It has the cores of its nodes, and no use of its own.

    >>> job = {"id": 17, "cores": 4.0, "nodes": 2, "resources": {"memory": 1}, "name": "fit", "cpu_s": 9.0}
    >>> step = {"number": 0, "command": "/opt/fit -n 3", "nodelist": "n1", "started_by": "ann", "started_at": 1.0}
    >>> row = step_row(job, step | {"ended_at": 5.0, "exit_status": 3, "signal": None, "cause": None, "tasks": 1})
    >>> row["step"], row["name"], row["cores"], row["state"], row["cpu_s"]
    (0, 'fit', 2.0, 'failed', None)
    """
    nodes = unfold(step["nodelist"].removesuffix("…")) if step["nodelist"] else []
    return job | dict.fromkeys(_OF_THE_JOB) | {
        "step": step["number"],
        "name": _name(step["command"]),
        "user": None,
        "state": _state(step),
        "cause": step["cause"],
        "started_at": step["started_at"],
        "submitted_at": step["started_at"],
        "eligible_at": step["started_at"],
        "ended_at": step["ended_at"],
        "exit_status": step["exit_status"],
        "signal": step["signal"],
        "nodelist": nodes,
        "nodes": len(nodes),
        "cores": job["cores"] / job["nodes"] * len(nodes),
        "allocated": None,
        "cancelled_by": None,
    }  # fmt: skip


def _name(command: str) -> str:
    """The program's name, as sacct has it."""
    try:
        return os.path.basename(shlex.split(command)[0])  # noqa: PTH119 - a name on another machine
    except (ValueError, IndexError):  # of a long command, the end is missing
        return command.split(" ", maxsplit=1)[0]


def _state(step: Row) -> str:
    if step["ended_at"] is None:
        return "running"
    if step["cause"] == "job_ended":
        return "cancelled"
    return "completed" if step["cause"] is None and step["signal"] is None and step["exit_status"] == 0 else "failed"
