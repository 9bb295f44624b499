"""``job.attach``: lets a user join the processes of a job, or start a shell or a step in it.

A step is recorded before its node hears of it, so that all of its tasks have one number. A task that its node does not
take has ended.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

import msgspec

from rankd.bus.endpoint import Reply, Verb
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError, Refused
from rankd.core.model.job import ACTIVE_STATES
from rankd.core.session.attempt import Chosen, JobRuns, Wanted, check_all_started, check_interactive
from rankd.core.session.step import NOT_STARTED, StepEnd, most_tasks, shown_command
from rankd.services.intake.session_verbs import SessionVerbs
from rankd.services.runtime.clock import Clock
from rankd.store.engine.group_commit import GroupCommit, News
from rankd.store.record.job_step import StepTask, begin_task, take_step_ends
from rankd.wire.codec import decode_strict
from rankd.wire.session import STEP_ID, AttachWish, JobAttach, Step

ACTION = "job.attach"


class AttachVerb:
    """The endpoint. ``group`` records steps."""

    def __init__(self, sessions: SessionVerbs, group: GroupCommit, clock: Clock) -> None:
        self._sessions = sessions
        self._group = group
        self._clock = clock

    def verbs(self) -> list[Verb]:
        """The endpoint of users."""
        return [Verb(ACTION, self.attach)]

    async def attach(self, asker: Submitter, payload: bytes) -> Reply:
        """Let the agent open a session with a job's processes, or begin a task of a step."""
        wanted = decode_strict(payload, JobAttach)
        job, chosen = await self._sessions.find(asker, ACTION, wanted.id, Wanted("stdout", None, wanted.node))
        if wanted.step is None:
            check_interactive(job)
        if wanted.node is None:
            check_all_started(job, chosen)
        session = wanted.session or secrets.token_hex(16)
        step, begins = wanted.step, wanted.step is not None and wanted.step.begins
        if step is not None and begins:
            _check_step(wanted, step, job.state, len(chosen.nodes))
            number = await self._begin(asker, _task_of(step, job, chosen, session, asker.user))
            step = msgspec.structs.replace(step, number=number)
        try:
            opened = await self._sessions.grant(asker, job, chosen, session, _wish(wanted, step))
        except RankdError:
            if step is not None and begins:
                await self._not_begun(chosen, step)
            raise
        return msgspec.structs.replace(opened, step=step.number) if step is not None and begins else opened

    async def _begin(self, asker: Submitter, task: StepTask) -> int:
        """Record a task; returns the number of its step.

        Raises:
            Refused: ``not_running``, ``unknown_step``.
        """
        begun = await self._group.do(lambda c: begin_task(c, task, self._clock()), client=asker.user, news=News.NOBODY)
        if isinstance(begun, Refused):
            raise begun
        return begun

    async def _not_begun(self, chosen: Chosen, step: Step) -> None:
        """Record that a task has not begun. If that fails, its step ends with its job."""
        if step.number is None:
            return
        run, now = chosen.run, self._clock()
        end = StepEnd(allocation=run.allocation, number=step.number, task=step.task, at=now, cause=NOT_STARTED)
        with suppress(RankdError):
            await self._group.do(lambda c: take_step_ends(c, [(run.node, end)], now), news=News.NOBODY)


def _task_of(step: Step, job: JobRuns, chosen: Chosen, session: str, user: str) -> StepTask:
    """What is recorded of a task before it is granted."""
    run = chosen.run
    nodes = [one.node for one in job.runs if one.allocation == run.allocation]  # also those that start just now
    return StepTask(
        allocation=run.allocation,
        session=session,
        number=step.number,
        task=step.task,
        place=nodes.index(run.node),
        command=shown_command(step.command),
        user=user,
    )


def _wish(wanted: JobAttach, step: Step | None) -> AttachWish:
    """What the agent is asked for. ``step``: with the number under which it is recorded."""
    number, task = (None, 0) if step is None else (step.number, step.task)
    if step is not None:
        env = step.env if number is None else step.env | {STEP_ID: str(number)}
        step = msgspec.structs.replace(step, env=env, number=None, task=0)
    return AttachWish(
        stdin=wanted.stdin,
        offsets=wanted.offsets,
        replay_bytes=wanted.replay_bytes,
        columns=wanted.columns,
        rows=wanted.rows,
        again=wanted.again,
        step=step,
        number=number,
        task=task,
    )


def _check_step(wanted: JobAttach, step: Step, state: str, n_nodes: int) -> None:
    """Check that a step can begin.

    Raises:
        Refused: ``not_running``, ``empty_command``, ``too_many_tasks``.
    """
    if not step.command:
        raise Refused("empty_command", "the command of a step is empty; name a program", "step.command")
    if state not in ACTIVE_STATES:
        message = f"job {wanted.id} is {state}, so nothing can be started in it; name a job that runs"
        raise Refused("not_running", message, "id", status=409)
    if step.task >= most_tasks(n_nodes):
        message = f"a step of this job has at most {most_tasks(n_nodes)} tasks, from 0; there is no task {step.task}"
        raise Refused("too_many_tasks", message, "step.task")
