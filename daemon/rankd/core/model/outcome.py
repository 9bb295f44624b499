"""How a job ended, from what its nodes reported. Pure, so that a replay of the reports gives the same end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rankd.core.model.delivery import NOT_TAKEN
from rankd.core.model.job import Event

OUT_OF_MEMORY = "out_of_memory"
"""The cause of a part of which the kernel killed processes for memory, also if its command succeeded."""
PROLOG_FAILED = "prolog_failed"
ORPHANED, ORPHANED_MESSAGE = "orphaned", "ended because its client had gone"
"""The cause and the message of an interactive job whose client has vanished."""
REQUEUE_CAUSES = frozenset({"agent_stopped", "agent_restarted", "lost", "node_lost", NOT_TAKEN, PROLOG_FAILED})
"""Causes that are not the job's fault: its agent stopped, lost it or did not take it, its node is silent or unfit."""


class NodeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job's part on one node. ``cause``: why rankd ended it; None if rankd did not."""

    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The job's end: the event, and the values to record."""

    event: Event
    exit_status: int | None
    signal: int | None
    cause: str | None


def decide_end(
    ends: Sequence[NodeEnd], *, cancelled: bool, may_requeue: bool, started: bool = True, is_left: bool = False
) -> JobEnd:
    """How a job ended. The first part that failed decides, without the parts that were cancelled because of another.

    A part of which the kernel killed processes for memory decides before any other: the others failed because of it.

    ``cancelled``: a user has asked to cancel the job. Then a failed job counts as cancelled, but a job whose parts all
    succeeded has completed. A job that did not start (``started``) because an agent did not take it waits again,
    whatever its limit of requeues. After a failed prolog it waits again while that limit is not reached (``is_left``),
    also if its user allows no requeues: a job with which no prolog succeeds must not drain every node.
    """
    bad = [end for end in ends if not is_well(end)]
    # if one part fails, rankd cancels the others; the clocks of nodes can't show which part was first
    own = [end for end in bad if end.cause != "cancel"]
    too_large = [end for end in own if end.cause == OUT_OF_MEMORY]
    worst = (too_large or own or bad or list(ends))[0]
    event = _event(worst, cancelled=cancelled, may_requeue=may_requeue)
    waits_again = worst.cause == NOT_TAKEN or (worst.cause == PROLOG_FAILED and is_left)
    if waits_again and not started and event is not Event.CANCEL:
        event = Event.TAKE_BACK
    return JobEnd(
        event=event,
        exit_status=worst.exit_status,
        signal=worst.signal,
        cause="cancel" if event is Event.CANCEL else worst.cause,
    )


def is_well(end: NodeEnd) -> bool:
    """Whether the part ended with status 0 by itself."""
    return end.exit_status == 0 and end.signal is None and end.cause is None


def memory_message(asked_bytes: int | None, peak_bytes: int | None, node: str | None) -> str:
    """The message to the user of a job that the kernel killed for memory. None: not known, or no limit of its own.

    >>> memory_message(4 * 2**30, 4 * 2**30, "n1")
    'killed for memory: asked for 4 GiB, peak 4.0 GiB on n1; ask for more with --mem'
    >>> memory_message(None, 300 * 2**20, None)
    'killed for memory: asked for no limit, peak 300.0 MiB; the node had no more'
    """
    asked = "no limit" if asked_bytes is None else _in_binary(asked_bytes, "{:.4g}")
    peak = "" if peak_bytes is None else f", peak {_in_binary(peak_bytes, '{:.1f}')}"
    advice = "the node had no more" if asked_bytes is None else "ask for more with --mem"
    return f"killed for memory: asked for {asked}{peak}{f' on {node}' if node else ''}; {advice}"


def _in_binary(amount: int, form: str) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount >= size:
            return f"{form.format(amount / size)} {unit}"
    return f"{amount} bytes"


def _event(end: NodeEnd, *, cancelled: bool, may_requeue: bool) -> Event:
    if is_well(end):
        return Event.COMPLETE
    if cancelled or end.cause == "cancel":
        return Event.CANCEL
    if end.cause == "timeout":
        return Event.TIME_OUT
    if end.cause == OUT_OF_MEMORY:
        return Event.EXCEED_MEMORY
    if end.cause in REQUEUE_CAUSES:
        return Event.REQUEUE if may_requeue else Event.LOSE_NODE
    return Event.FAIL
