"""Actions of users on existing jobs: cancel, hold, release, signal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rankd.core.admission.permission import OwnedJob, check
from rankd.core.admission.submitter import Submitter
from rankd.core.change.hold import check_release, holder
from rankd.core.change.job_change import Change, EndRequest, JobState, Value
from rankd.core.errors import Refused
from rankd.core.model.job import ACTIVE_STATES, URGENCY_DEFAULT, URGENCY_HOLD, Event, State
from rankd.core.model.signal_name import name_of_signal

Decision = Change | EndRequest

Decide = Callable[[int, JobState, Submitter, float], Decision]
"""Decides about the job with this id, for this user, at this time (UTC seconds).

Raises:
    Refused: the job's state does not allow it.
"""


def permitted(
    job: int, state: JobState | None, asker: Submitter, action: str, queue: tuple[str, str] | None = None
) -> JobState:
    """The state of a job that exists and with which this asker may do this.

    ``queue``: the partition and path of its queue. It matters only if the job is not the asker's own.

    Raises:
        Refused: ``unknown_job``, ``not_owner``.
    """
    if state is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    check(asker, action, OwnedJob(state.name(job), state.user, queue))
    return state


def cancel(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """End a job. A pending job ends at once. A job with an allocation is ended by its nodes.

    Raises:
        Refused: ``already_ended``.
    """
    if state.state in ACTIVE_STATES:
        return EndRequest(job=job, actor=asker.user, via=asker.via)
    if state.state is not State.PENDING:
        raise Refused("already_ended", f"job {state.name(job)} is {state.state}; there is nothing to cancel", "id", 409)
    columns = {"ended_at": now, "eligible_at": None}
    return Change(job=job, state=state.state, event=Event.CANCEL, actor=asker.user, cause="cancel", columns=columns)


def hold(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Hold a pending job, so that it is not ranked.

    Raises:
        Refused: ``not_pending``.
    """
    del now
    _check_pending(job, state, "held")
    columns: dict[str, Value] = {"held": True, "held_by": holder(state.user, state.held_by, asker), "eligible_at": None}
    return Change(job=job, state=state.state, event=Event.HOLD, actor=asker.user, columns=columns)


def release(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Let a held job be ranked again; its age begins now. A job held by urgency 0 gets the default urgency.

    Raises:
        Refused: ``not_pending``, ``not_held``, ``admin_hold``.
    """
    _check_pending(job, state, "released")
    if not state.held and state.urgency != URGENCY_HOLD:
        raise Refused("not_held", f"job {state.name(job)} is not held", "id", status=409)
    check_release(state.name(job), state.user, state.held_by, asker)
    columns = {
        "held": False,
        "held_by": None,
        "urgency": URGENCY_DEFAULT if state.urgency == URGENCY_HOLD else state.urgency,
        "eligible_at": now if state.blocked_by is None else None,
    }
    return Change(job=job, state=state.state, event=Event.RELEASE, actor=asker.user, columns=columns)


def signalled(number: int, crowded: Collection[int]) -> Decide:
    """The decision to send a signal to the processes of a running job. ``crowded``: jobs with too many on their way.

    The decision raises:
        Refused: ``not_running``, ``too_many_signals``.
    """
    name = name_of_signal(number)

    def decide(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
        del now
        if state.state is not State.RUNNING or state.allocation is None:
            message = f"job {state.name(job)} is {state.state}; only running jobs get signals"
            raise Refused("not_running", message, "id", status=409)
        if job in crowded:
            many = f"{MOST_ON_THEIR_WAY} signals on their way"
            message = f"job {state.name(job)} has {many}; its node does not fetch them"
            raise Refused("too_many_signals", message, "id", status=429)
        return Change(job=job, state=state.state, event=Event.SIGNAL, actor=asker.user, detail={"signal": name})

    return decide


MOST_ON_THEIR_WAY = 32
"""Signals of a job that a node has not carried out yet. A time limit is no signal: a job has one at most."""

ACTIONS: Mapping[Decide, str] = {cancel: "job.cancel", hold: "job.hold", release: "job.release"}
"""The verb of each decision."""


PASSED_OVER = frozenset({"already_ended", "not_an_array", "not_held", "not_pending", "not_running"})
"""Refusals of tasks to which an action can't apply. They are no failures if the whole array was named."""

FOR_NOTHING: Mapping[str, tuple[str, str]] = {
    "job.cancel": ("already_ended", "every task of array {} has ended; there is nothing to cancel"),
    "job.hold": ("not_pending", "no task of array {} is pending; only pending tasks can be held"),
    "job.release": ("not_held", "no task of array {} is held; there is nothing to release"),
    "job.signal": ("not_running", "no task of array {} is running; only running tasks get signals"),
    "job.update": ("not_pending", "no task of array {} is pending; only pending tasks can be changed"),
}
"""Code and message, by verb, if an array was named as a whole and the action applies to none of its tasks."""


def _check_pending(job: int, state: JobState, done: str) -> None:
    if state.state is not State.PENDING:
        message = f"job {state.name(job)} is {state.state}; only pending jobs can be {done}"
        raise Refused("not_pending", message, "id", status=409)
