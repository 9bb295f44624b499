"""The life of an application: the jobs that share an ``application`` id in one leaf queue.

::

    new ─▸ accepted ─▸ starting ─▸ running ─▸ completing ─▸ completed, failed
              └────────────┴──────────┴──▸ (nothing left) ▴      └─▸ (a new job) accepted

States and events follow YuniKorn's (up to 1.5, where ``stateaware`` uses them). An application is starting from its
first allocation until its second, or for :data:`STARTING_S`; it is completing while nothing of it is left, for
:data:`COMPLETING_S`, in which a new job takes it back. Where we differ: ``failed`` is an application that ended and
of which a job did not complete; YuniKorn's applications fail for reasons that rankd does not have.

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
    """Where an application is in its life."""

    NEW = "new"
    ACCEPTED = "accepted"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETING = "completing"
    COMPLETED = "completed"
    FAILED = "failed"


class ApplicationEvent(StrEnum):
    """What moves it on."""

    SUBMIT = "submit"
    """A job of it waits: submitted, moved here, or requeued."""
    ALLOCATE = "allocate"
    """A job of it was given nodes."""
    EMPTY = "empty"
    """No job of it waits or runs any more."""
    TIMEOUT = "timeout"
    """It has been starting, or completing, for long enough."""
    FAIL = "fail"
    """``TIMEOUT`` of an application of which a job did not complete."""


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
"""An event that is not here changes nothing: most jobs of an application come and go while it runs."""

ENDED = frozenset({_S.COMPLETED, _S.FAILED})


class Life(msgspec.Struct, frozen=True):
    """A state and since when, UTC seconds; ``created_at`` is renewed where an ended application begins again."""

    state: ApplicationState
    since: float
    created_at: float

    def after(self, event: ApplicationEvent, now: float) -> Life:
        """The life after the event."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return self
        created_at = now if self.state in ENDED else self.created_at
        return Life(state, now, created_at)

    def is_over_at(self, now: float) -> bool:
        """Whether what it is in lasts no longer than until ``now``."""
        lasts = {_S.STARTING: STARTING_S, _S.COMPLETING: COMPLETING_S}.get(self.state)
        return lasts is not None and now >= self.since + lasts
