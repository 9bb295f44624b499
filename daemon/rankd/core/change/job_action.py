"""Actions of users on existing jobs: cancel, hold, release."""

from __future__ import annotations

from collections.abc import Callable

from rankd.core.admission.admit import Submitter
from rankd.core.change.job_change import Change, EndRequest, JobState
from rankd.core.errors import Refused
from rankd.core.model.job import ACTIVE_STATES, URGENCY_DEFAULT, URGENCY_HOLD, Event, State

Decision = Change | EndRequest

Decide = Callable[[int, JobState, Submitter, float], Decision]
"""Decides about the job with this id, for this user, at this time (UTC seconds).

Raises:
    Refused: the job's state does not allow it.
"""


def permitted(job: int, state: JobState | None, asker: Submitter) -> JobState:
    """The state of a job that exists and that this asker may change.

    Raises:
        Refused: ``unknown_job``, ``not_owner``.
    """
    if state is None:
        raise Refused("unknown_job", f"there is no job {job}", "id", status=404)
    if state.user != asker.user and not asker.privileged:
        message = f"job {job} belongs to '{state.user}'; only its owner or an administrator may do that"
        raise Refused("not_owner", message, "id", status=403)
    return state


def cancel(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """End a job. A pending job ends at once. A job with an allocation is ended by its nodes.

    Raises:
        Refused: ``already_ended``.
    """
    if state.state in ACTIVE_STATES:
        return EndRequest(job=job, actor=asker.user)
    if state.state is not State.PENDING:
        raise Refused("already_ended", f"job {job} is {state.state}; there is nothing to cancel", "id", status=409)
    columns = {"ended_at": now, "eligible_at": None}
    return Change(job=job, state=state.state, event=Event.CANCEL, actor=asker.user, cause="cancel", columns=columns)


def hold(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Hold a pending job, so that it is not ranked.

    Raises:
        Refused: ``not_pending``.
    """
    del now
    _check_pending(job, state, "held")
    columns = {"held": True, "eligible_at": None}
    return Change(job=job, state=state.state, event=Event.HOLD, actor=asker.user, columns=columns)


def release(job: int, state: JobState, asker: Submitter, now: float) -> Decision:
    """Let a held job be ranked again; its age begins now. A job held by urgency 0 gets the default urgency.

    Raises:
        Refused: ``not_pending``, ``not_held``.
    """
    _check_pending(job, state, "released")
    if not state.held and state.urgency != URGENCY_HOLD:
        raise Refused("not_held", f"job {job} is not held", "id", status=409)
    columns = {
        "held": False,
        "urgency": URGENCY_DEFAULT if state.urgency == URGENCY_HOLD else state.urgency,
        "eligible_at": now if state.blocked_by is None else None,
    }
    return Change(job=job, state=state.state, event=Event.RELEASE, actor=asker.user, columns=columns)


def _check_pending(job: int, state: JobState, done: str) -> None:
    if state.state is not State.PENDING:
        message = f"job {job} is {state.state}; only pending jobs can be {done}"
        raise Refused("not_pending", message, "id", status=409)
