"""What the record of a step says: which of its tasks were begun and have ended, and how the worst of them ended. Pure.

A step has a task on each of its nodes, or several. Each is granted by a request of its own, and ends by a report of its
node. Requests and reports may be repeated, so the record has a bit for each task: nothing counts twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

NOT_STARTED = "not_started"
"""The cause of a task of which no process ran."""
LOST = "lost"
"""The cause of a task of which nobody knows how it ended."""
JOB_ENDED = "job_ended"
"""The cause of a step that was open when its job's allocation ended."""
CAUSES = frozenset({NOT_STARTED, LOST})
"""Those that a node may report."""
UNKNOWN_STATUS = 125
"""As which a task counts that has neither an exit status nor a signal: what ``rankd run`` ends with."""
SIGNAL_STATUS = 128

MOST_STEPS = 1_000
"""Steps of an allocation that are recorded at least: the newest ones. Older ones are while they run."""
MOST_TASKS = 128
"""Tasks of a step, or one on each node of its job if these are more."""
LONGEST_COMMAND = 1_000
"""Characters of a step's command that are recorded."""


Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class StepEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task of a step ended on its node. This is the format of the message.

    ``number`` and ``task``: of the step in its allocation, and of the task in the step, from 0. ``cause``:
    ``not_started``, ``lost``; None: it ran to its end.
    """

    allocation: Id
    number: Id
    task: Id = 0
    at: float
    exit_status: int | None = None
    signal: int | None = None
    cause: Annotated[str, Meta(max_length=16)] | None = None


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the records. ``begun``, ``ended``: a bit for each task.

    ``unstarted``: those of ended tasks of which no process ran, as far as is known: they have neither an exit status
    nor a signal. The end is that of the worst of the other ended tasks.
    """

    begun: int
    ended: int = 0
    unstarted: int = 0
    ended_at: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None


def begun(state: StepState, task: int) -> StepState:
    """The step with one more task. A task that could not be granted before may be begun again; one that ran may not.

    >>> begun(StepState(begun=1, ended=1, ended_at=5.0, exit_status=3), 1).ended_at is None
    True
    """
    bit = 1 << task
    if state.ended & bit & ~state.unstarted:
        return state
    return msgspec.structs.replace(
        state,
        begun=state.begun | bit,
        ended=state.ended & ~bit,
        unstarted=state.unstarted & ~bit,
        ended_at=None,
    )


def ended(state: StepState, end: StepEnd) -> StepState:
    """The step after the end of a task. A task that was not begun, or has ended before, changes nothing.

    But if no process of the task ran as far as was known, another end of it counts: this was said of an earlier grant.

    >>> both = StepState(begun=3)
    >>> one = ended(both, StepEnd(allocation=1, number=0, task=1, at=5.0, exit_status=3))
    >>> one.ended_at, one.exit_status
    (None, 3)
    >>> other = ended(one, StepEnd(allocation=1, number=0, at=6.0, exit_status=0))
    >>> other.ended_at, other.exit_status
    (6.0, 3)
    """
    if end.task >= state.begun.bit_length():
        return state
    bit = 1 << end.task
    never_ran = end.cause == NOT_STARTED and end.exit_status is None and end.signal is None
    if not state.begun & bit or (state.ended & bit and (never_ran or not state.unstarted & bit)):
        return state
    is_first = not state.ended & ~state.unstarted
    state = msgspec.structs.replace(
        state,
        ended=state.ended | bit,
        unstarted=state.unstarted | bit if never_ran else state.unstarted & ~bit,
        ended_at=end.at if state.ended | bit == state.begun else None,
    )
    if never_ran or (not is_first and _severity(end) <= _severity(state)):
        return state
    return msgspec.structs.replace(state, exit_status=end.exit_status, signal=end.signal, cause=end.cause)


def _severity(end: StepEnd | StepState) -> tuple[int, bool]:
    """The order of ends, as a shell would number them. At the same number, one with a cause is worse."""
    if end.signal is not None:
        return SIGNAL_STATUS + end.signal, end.cause is not None
    return UNKNOWN_STATUS if end.exit_status is None else end.exit_status, end.cause is not None


def shown_command(words: Sequence[str]) -> str:
    """The command as a shell would read it; of a long one, the beginning.

    >>> shown_command(["sh", "-c", "exit 3"])
    "sh -c 'exit 3'"
    """
    kept, length = list[str](), 0
    for word in words:
        kept.append(word[: LONGEST_COMMAND + 1])
        length += len(word) + 1
        if length > LONGEST_COMMAND + 1:
            break
    text = shlex.join(kept)
    return text if len(text) <= LONGEST_COMMAND else f"{text[: LONGEST_COMMAND - 1]}…"


def most_tasks(n_nodes: int) -> int:
    """The most tasks that a step of a job with so many nodes has."""
    return max(MOST_TASKS, n_nodes)
