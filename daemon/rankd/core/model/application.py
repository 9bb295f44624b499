"""The life of an application: the jobs that share an ``application`` id in one leaf queue.

::

    new ─▸ accepted ─▸ starting ─▸ running ─▸ completing ─▸ completed, failed
              └────────────┴──────────┴──▸ (nothing left) ▴      └─▸ (a new job) accepted

States and events follow YuniKorn's (up to 1.5, where ``stateaware`` uses them). An application is starting from its
first allocation to its second, for at most :data:`STARTING_S`. When no job of it waits or runs, it is completing for
:data:`COMPLETING_S`. A new job in this time makes it running again. Where we differ: an application has ``failed`` if
it ended and one of its jobs did not complete. YuniKorn's applications fail for reasons that rankd does not have.

Pure: the caller gives the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

STARTING_S = 300.0
COMPLETING_S = 30.0


class ApplicationState(StrEnum):
    """The state of an application."""

    NEW = "new"
    ACCEPTED = "accepted"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETING = "completing"
    COMPLETED = "completed"
    FAILED = "failed"


class ApplicationEvent(StrEnum):
    """What changes the state of an application."""

    SUBMIT = "submit"
    """One of its jobs waits: it was submitted, moved here, or requeued."""
    ALLOCATE = "allocate"
    """One of its jobs was allocated to nodes."""
    EMPTY = "empty"
    """None of its jobs waits or runs any more."""
    TIMEOUT = "timeout"
    """The time limit of its state (starting or completing) is over."""
    FAIL = "fail"
    """The same as ``TIMEOUT``, for an application with a job that did not complete."""


_S, _E = ApplicationState, ApplicationEvent
_LIVE = (_S.ACCEPTED, _S.STARTING, _S.RUNNING)

TRANSITIONS: Mapping[tuple[ApplicationState, ApplicationEvent], ApplicationState] = MappingProxyType(
    {
        (_S.NEW, _E.SUBMIT): _S.ACCEPTED,
        (_S.COMPLETING, _E.SUBMIT): _S.RUNNING,
        (_S.COMPLETED, _E.SUBMIT): _S.ACCEPTED,
        (_S.FAILED, _E.SUBMIT): _S.ACCEPTED,
        (_S.ACCEPTED, _E.ALLOCATE): _S.STARTING,
        (_S.STARTING, _E.ALLOCATE): _S.RUNNING,
        **{(state, _E.EMPTY): _S.COMPLETING for state in _LIVE},
        (_S.STARTING, _E.TIMEOUT): _S.RUNNING,
        (_S.STARTING, _E.FAIL): _S.RUNNING,
        (_S.COMPLETING, _E.TIMEOUT): _S.COMPLETED,
        (_S.COMPLETING, _E.FAIL): _S.FAILED,
    }
)
"""Other events change nothing: most jobs of an application begin and end while it runs."""

ENDED = frozenset({_S.COMPLETED, _S.FAILED})


class Life(msgspec.Struct, frozen=True):
    """A state, and the time of its beginning in UTC seconds.

    An ended application that begins again gets a new ``created_at``.
    """

    state: ApplicationState
    since: float
    created_at: float

    def after(self, event: ApplicationEvent, now: float) -> Life:
        """The state and times after the event."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return self
        created_at = now if self.state in ENDED else self.created_at
        return Life(state, now, created_at)

    def is_over_at(self, now: float) -> bool:
        """Whether the state has a time limit (starting, completing) that is over at ``now``."""
        lasts = {_S.STARTING: STARTING_S, _S.COMPLETING: COMPLETING_S}.get(self.state)
        return lasts is not None and now >= self.since + lasts
