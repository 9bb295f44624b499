"""How a job ended, from what its nodes reported. Pure, so that a replay of the reports gives the same end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rankd.core.model.delivery import NOT_TAKEN
from rankd.core.model.job import Event

REQUEUE_CAUSES = frozenset({"agent_stopped", "agent_restarted", "lost", "node_lost", NOT_TAKEN})
"""Ends that the job did not cause: its agent was stopped or lost sight of it, or its node is silent."""


class NodeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job's part on one node; ``cause`` says why rankd ended it, if it did."""

    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The job's end: the event, and what is recorded of it."""

    event: Event
    exit_status: int | None
    signal: int | None
    cause: str | None


def decide_end(ends: Sequence[NodeEnd], *, cancelled: bool, may_requeue: bool, started: bool = True) -> JobEnd:
    """The first node that did not end well decides; a request to cancel outranks the ends that it caused.

    A job that ended well before the request reached it has completed. A job that did not start (``started``) because
    an agent did not take it waits again, whatever its limit of requeues.
    """
    bad = [end for end in ends if not _well(end)]
    # others were ended because one part went wrong; the clocks of nodes can't tell which part was first
    own = [end for end in bad if end.cause != "cancel"]
    worst = (own or bad or list(ends))[0]
    event = _event(worst, cancelled=cancelled, may_requeue=may_requeue)
    if worst.cause == NOT_TAKEN and not started and event is not Event.CANCEL:
        event = Event.TAKE_BACK
    return JobEnd(
        event=event,
        exit_status=worst.exit_status,
        signal=worst.signal,
        cause="cancel" if event is Event.CANCEL else worst.cause,
    )


def _well(end: NodeEnd) -> bool:
    return end.exit_status == 0 and end.signal is None and end.cause is None


def _event(end: NodeEnd, *, cancelled: bool, may_requeue: bool) -> Event:
    if _well(end):
        return Event.COMPLETE
    if cancelled or end.cause == "cancel":
        return Event.CANCEL
    if end.cause == "timeout":
        return Event.TIME_OUT
    if end.cause in REQUEUE_CAUSES:
        return Event.REQUEUE if may_requeue else Event.LOSE_NODE
    return Event.FAIL
