"""What it takes to run a job here: its user, environment, directories, files and limits."""

from __future__ import annotations

import os
from pathlib import Path

from rankd.bus.address import user_in
from rankd.core.model.job_environment import JobPlace, job_environment, job_path
from rankd.services.agent_cgroup import Limits
from rankd.services.agent_identity import SUBMITTER, RunAs, account_variables, home_of
from rankd.services.agent_leftover import STATE_VARIABLE
from rankd.services.agent_process import Identity, Launch
from rankd.wire.message import StartJob

EVERYBODYS = 0o1777


class Planner:
    """The node's rules. ``output_dir`` takes the output of jobs that name no file; ``limited``: by control groups."""

    def __init__(self, state: Path, output_dir: Path, run_as: RunAs, *, limited: bool = True) -> None:
        self._state = str(state)
        self._output = str(output_dir.absolute() / "job-%j")
        self._cwd = Path.cwd()
        self._run_as = run_as
        self._limited = limited
        self._own = _own_environment()
        if run_as.mode == SUBMITTER:
            output_dir.mkdir(parents=True, exist_ok=True)
            output_dir.chmod(EVERYBODYS)

    @property
    def as_users(self) -> bool:
        """Whether jobs run as their users."""
        return self._run_as.mode == SUBMITTER

    def plan(self, start: StartJob) -> Launch:
        """How to start a job.

        Raises:
            Refused: its user may not run here.
        """
        request = start.request
        place = JobPlace(
            job=start.job,
            allocation=start.allocation,
            user=start.user,
            name=start.name,
            nodes=start.nodes,
            rank=start.rank,
        )
        identity = self._run_as.identity(start.user)
        cwd = str((Path(home_of(identity)) if identity else self._cwd) / (request.cwd or ""))
        return Launch(
            command=request.command,
            environment=self._environment(start, place, identity),
            cwd=cwd,
            stdin=job_path(request.stdin, place, cwd) if request.stdin else None,
            stdout=job_path(request.stdout or f"{self._output}.out", place, cwd),
            stderr=job_path(request.stderr or f"{self._output}.err", place, cwd),
            append=len(start.nodes) > 1,
            identity=identity,
            limits=self._limits(start),
        )

    def _environment(self, start: StartJob, place: JobPlace, identity: Identity | None) -> dict[str, str]:
        base = {**self._own, **(account_variables(identity) if identity else {})}
        return {**job_environment(base, start.request, place), STATE_VARIABLE: self._state}

    def _limits(self, start: StartJob) -> Limits | None:
        """What it asked for; whoever has the node for himself has all of it."""
        if not self._limited or start.request.exclusive:
            return None
        return Limits(memory_bytes=start.resources.get("memory"), vcore=start.resources.get("vcore"))


def _own_environment() -> dict[str, str]:
    """Without the agent's own way to the broker: a job must not speak for its node."""
    own = dict(os.environ)
    if user_in(own.get("RANKD_NATS", "")):
        del own["RANKD_NATS"]
    return own
