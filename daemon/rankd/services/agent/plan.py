"""How a job is run on this node: its user, environment, directories, files and limits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rankd.core.admission.amount import SMALL_SHARE
from rankd.core.errors import Refused, usable
from rankd.core.model.device import GPU
from rankd.core.model.hook import hook_environment
from rankd.core.model.job_environment import ARRAY_OUTPUT, DEFAULT_OUTPUT, job_environment, job_path
from rankd.core.model.job_place import CLUSTER, JobPlace
from rankd.services.agent.device_denial import DeviceDenial, check_files
from rankd.services.agent.given_device import GivenDevice, vendor_of
from rankd.services.agent.identity import RunAs, account_variables, home_of, own_name
from rankd.services.agent.leftover import STATE_VARIABLE
from rankd.services.agent.script_files import ScriptFiles
from rankd.services.agent.users_directory import make_top, make_users_directory
from rankd.services.keeper.cgroup_layout import Limits
from rankd.services.keeper.device_rule import DeviceNumber
from rankd.services.keeper.message import JobHooks
from rankd.services.keeper.proc import Identity, Launch, Session
from rankd.services.keeper.state import FULL
from rankd.services.runtime.clock import Clock
from rankd.wire.message import NodeHooks, StartJob
from rankd.wire.subject import encode_name

MAX_PROCESSES = 4096
"""Used until the intake has sent the configured value."""

LONGEST_FILE_NAME = 255
SRUN_DIRECTORY = Path(__file__).with_name("path")
HOLD = ["sleep", "2147483647"]
"""What runs on the further nodes of a job with a script. The intake ends it once the script has ended."""


class Planner:
    """The node's rules. Jobs that name no output file write to ``output_dir``.

    ``limited``: jobs are held to the memory and cores that they asked for. ``max_processes`` applies to every job.
    """

    def __init__(
        self,
        state: Path,
        output_dir: Path,
        run_as: RunAs,
        *,
        limited: bool = True,
        instance: str = "",
        clock: Clock = time.time,
    ) -> None:
        self.max_processes = MAX_PROCESSES
        self.cluster = CLUSTER
        self.denial = DeviceDenial()
        self.confines = False
        """Whether the keeper can keep jobs from the devices of others."""
        self.hooks = NodeHooks()
        """What runs before and after each job."""
        self._state = str(state)
        self.output = output_dir.absolute()
        self._cwd = Path.cwd()
        self._run_as = run_as
        self._limited = limited
        self._clock = clock
        self._own = _own_environment()
        self._users_outputs: set[str] = set()
        self.has_users_rights = run_as.gives_users_rights
        if self.has_users_rights:
            with usable(output_dir, "output"):
                self.output = make_top(output_dir)
        self.scripts = ScriptFiles(self.output, instance, has_users_rights=self.has_users_rights)

    def identity(self, user: str) -> Identity | None:
        """Whom the jobs of a user run as; None means the agent's own user.

        Raises:
            Refused: they don't run here.
        """
        return self._run_as.identity(user)

    def plan(self, start: StartJob) -> Launch:
        """How to start a job, as the keeper needs it. Writes its script, if it has one.

        Raises:
            Refused: its user may not run jobs here, no directory for its output can be made, or its devices are others.
            OSError: there is no room for its script.
        """
        identity = self._run_as.identity(start.user)
        self.denial.check(start.devices)
        if start.holds:
            return self._holding(start, identity)
        request, place = start.request, self._place(start, identity)
        cwd = str((Path(home_of(identity)) if identity else self._cwd) / (request.cwd or ""))
        output = "" if request.stdout and request.stderr else self._default_output(start, identity)
        return Launch(
            command=self._command(start, identity),
            environment=self._environment(start, place, identity),
            cwd=cwd,
            may_lack_cwd=identity is not None and not request.cwd,
            stdin=job_path(request.stdin, place, cwd) if request.stdin else None,
            stdout=job_path(request.stdout or f"{output}.out", place, cwd),
            stderr=job_path(request.stderr or f"{output}.err", place, cwd),
            append=request.open_mode == "append" or (len(start.nodes) > 1 and start.script is None),
            identity=identity,
            limits=self._limits(start),
            denied=self._denied(start),
            session=session_of(start),
        )

    def job_hooks(self, start: StartJob) -> JobHooks | None:
        """What runs before and after a job on this node; None if nothing does.

        Raises:
            Refused: the job's user may not run jobs here.
        """
        hooks = self.hooks  # this runs in a thread: they may change meanwhile
        if hooks.prolog is None and hooks.epilog is None:
            return None
        place = self._place(start, self._run_as.identity(start.user))
        environment = {**hook_environment(place), STATE_VARIABLE: self._state}
        return JobHooks(
            prolog=hooks.prolog,
            epilog=hooks.epilog,
            environment=environment,
            timeout_s=hooks.timeout_s,
        )

    def _denied(self, start: StartJob) -> list[DeviceNumber]:
        return self.denial.denied([device.id for device in start.devices]) if self.confines else []

    def _command(self, start: StartJob, identity: Identity | None) -> list[str]:
        """The command; for a job with a script, the file of the script and its arguments."""
        if start.script is None:
            return start.request.command
        try:
            path = self.scripts.write(start.allocation, start.script, identity)
        except OSError as error:
            if error.errno in FULL:
                raise
            message = f"can't write the script to {error.filename}: {error.strerror}; ask the node's administrator"
            raise Refused("no_script_file", message, "script") from error
        return [path, *start.request.command[1:]]

    def _holding(self, start: StartJob, identity: Identity | None) -> Launch:
        """A process that holds a further node of a job whose script runs on its first node."""
        bare = msgspec.structs.replace(start, request=msgspec.structs.replace(start.request, env={}, slurm_env=False))
        return Launch(
            command=HOLD,
            environment=self._environment(bare, self._place(bare, identity), identity),
            cwd="/",
            stdin=None,
            stdout=os.devnull,
            stderr=os.devnull,
            append=True,
            identity=identity,
            limits=self._limits(start),
            denied=self._denied(start),
            holds=True,
        )

    def _default_output(self, start: StartJob, identity: Identity | None) -> str:
        """The pattern of a job's output files. Each user has an own directory, where no other user can place a link."""
        if identity is None:
            return _pattern(self._agents_directory(start.user), start)
        if identity.name not in self._users_outputs:
            make_users_directory(self.output, identity)
            self._users_outputs.add(identity.name)
        return _pattern(self.output / identity.name, start)

    def _agents_directory(self, user: str) -> Path:
        """Where a job writes that runs as the agent's own user. The job itself makes a directory that is missing."""
        name = encode_name(user)
        is_apart = user != own_name() and len(name) <= LONGEST_FILE_NAME
        return self.output / name if is_apart else self.output

    def _environment(self, start: StartJob, place: JobPlace, identity: Identity | None) -> dict[str, str]:
        base = {**self._own, **(account_variables(identity) if identity else {})}
        environment = {**job_environment(base, start.request, place), STATE_VARIABLE: self._state}
        return with_srun(environment) if start.request.slurm_env else environment

    def offer(self, devices: Sequence[GivenDevice]) -> None:
        """The node has these devices, with these files.

        Raises:
            Refused: ``bad_path``: a path is not that of a device's file.
        """
        paths = {device.id: device.path for device in devices}
        check_files([path for of in paths.values() for path in of], has_users=self.has_users_rights)
        self.denial.offer(devices)

    def _place(self, start: StartJob, identity: Identity | None) -> JobPlace:
        paths = self.denial.paths
        vendors = {one.id: vendor for one in start.devices if (vendor := vendor_of(paths.get(one.id, ())))}
        return JobPlace(
            job=start.job,
            allocation=start.allocation,
            user=start.user,
            name=start.name,
            nodes=start.nodes,
            rank=start.rank,
            resources=start.resources,
            account=start.account,
            queue=start.queue,
            qos=start.qos,
            array=start.array,
            devices=start.devices,
            vendors=vendors,
            confines=self.confines,
            counts_gpus=self._counts_gpus(start),
            uid=os.getuid() if identity is None else identity.uid,
            gid=os.getgid() if identity is None else identity.gid,
            requeues=start.requeues,
            whole=start.whole,
            at=self._clock(),
            cluster=self.cluster,
        )

    def _counts_gpus(self, start: StartJob) -> bool:
        """Whether the job has GPUs of a node that only counts them, which an exclusive job has without asking."""
        if start.devices or self.denial.paths:
            return False
        return bool(start.resources.get(GPU)) or start.request.exclusive

    def _limits(self, start: StartJob) -> Limits:
        """The limits of a job.

        An exclusive job may use what the node offers. A job without cores gets a small share.
        """
        is_unknown = start.request.exclusive and not start.whole  # from an intake of an earlier version
        if not self._limited or is_unknown:
            return Limits(processes=self.max_processes)
        return Limits(
            memory_bytes=start.resources.get("memory"),
            vcore=start.resources.get("vcore") or SMALL_SHARE,
            processes=self.max_processes,
        )


def with_srun(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job that finds an ``srun`` on its PATH, which starts a step of the job."""
    path = f"{SRUN_DIRECTORY}:{environment.get('PATH', os.defpath)}"
    return {**environment, "PATH": path, "RANKD_PROGRAM": str(Path(sys.executable).with_name("rankd"))}


def session_of(start: StartJob) -> Session | None:
    """The streams of an interactive job on this node: only its first node has input."""
    wanted = start.request.interactive
    if wanted is None:
        return None
    return Session(
        name=str(start.allocation),
        pty=wanted.pty,
        input=(wanted.input or wanted.pty) and start.rank == 0,
        rows=wanted.rows,
        columns=wanted.columns,
    )


def _pattern(directory: Path, start: StartJob) -> str:
    name = DEFAULT_OUTPUT if start.array is None else ARRAY_OUTPUT
    return f"{directory.as_posix().replace('%', '%%')}/{name}"


def _own_environment() -> dict[str, str]:
    """The agent's environment without credentials: a job must not act as its node, or write the records."""
    own = dict(os.environ)
    for name in ("RANKD_NATS", "RANKD_DB"):
        if "@" in own.get(name, ""):
            del own[name]
    return own
