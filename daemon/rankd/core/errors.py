"""All errors that rankd raises on purpose.

::

    RankdError                     code, message, field, status, retryable
    ├── Refused                    a request can't be accepted as it is (status 4xx)
    │   └── AboveLimit             it can't be accepted now: the asker is at a limit (429, retryable)
    ├── Unavailable                not ready, or a needed part does not answer (503, retryable)
    │   └── UnknownOutcome         the database was lost during a commit: done or not
    ├── ConfigurationError         a configuration that can't be used, with all its problems
    ├── InvalidTransition          a job's state does not allow this event: a bug, or a stale report
    ├── FactorError                a factor plugin raised an exception, or returned invalid values
    └── RoleLost                   another instance has the role now; this one must stop

``code`` is stable: programs compare it. ``message`` names what failed, which value, and what to do.
``status`` is the number that travels in the header ``Nats-Service-Error-Code``.

Every command imports this module, so it imports nothing slow, such as msgspec.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rankd.core.instant import shown_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_STORY = 20
"""The most events in the message of an :class:`InvalidTransition`. A job with many requeues has more."""
UNUSABLE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""The system's error numbers for a path that can't be used. Other errors, such as a full disk, may be temporary."""


class Problem(NamedTuple):
    """One problem in a configuration. ``path``: in the document. ``line``: from 1, or 0 if unknown.

    A warning is one too: the configuration is accepted, but something in it has another effect than it seems. Some
    warnings have a ``code``, which is stable.
    """

    path: str
    message: str
    line: int = 0
    file: str = ""
    code: str = ""

    def __str__(self) -> str:
        """The problem in the format of compilers: ``queues.yaml:12: partitions[0].queues[1]: …``."""
        place = ":".join(part for part in (self.file, str(self.line or "")) if part)
        return ": ".join(part for part in (place, self.path, self.message) if part)


class PastEvent(NamedTuple):
    """A recorded event of a job: the state after it, its time (UTC seconds), and the actor who caused it."""

    event: str
    state: str
    at: float
    actor: str


class RankdError(Exception):
    """Base of all errors. ``retryable``: the same request may succeed later."""

    retryable: ClassVar[bool] = False

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 500) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.status = status


class Refused(RankdError):
    """The request can't be accepted as it is. If it is sent again unchanged, it gets the same answer."""

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 400) -> None:
        super().__init__(code, message, field, status)


class AboveLimit(Refused):
    """The asker is at a limit. The same request may succeed later; what is enqueued becomes a dead letter at once."""

    retryable: ClassVar[bool] = True

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 429) -> None:
        super().__init__(code, message, field, status)


class Unavailable(RankdError):
    """A needed part does not answer now. The same request may succeed later."""

    retryable: ClassVar[bool] = True

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 503) -> None:
        super().__init__(code, message, field, status)


class UnknownOutcome(Unavailable):
    """The database was lost while it committed: what was written may be there or not.

    So the same request must only be sent again if it has a key, or a message id, by which it is done once.
    """

    def __init__(self, cause: str) -> None:
        message = f"the database was lost during the commit: this was done or not; look before you repeat it ({cause})"
        super().__init__("unknown_outcome", message)


class ConfigurationError(RankdError):
    """A configuration that can't be used, with all its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("bad_configuration", "\n".join(str(problem) for problem in problems))
        self.problems = problems


class InvalidTransition(RankdError):
    """A job's state does not allow this event. Has the job, its state, the event, and the job's events so far.

    ``name``: how people name the job, if it is a task of an array.
    """

    def __init__(
        self, job: int, state: str, event: str, events: Sequence[PastEvent] = (), name: str | None = None
    ) -> None:
        message = f"job {name or job} is {state}: the event '{event}' is not possible in this state{_story(events)}"
        super().__init__("invalid_transition", message, status=409)
        self.job = job
        self.state = state
        self.event = event
        self.events = tuple(events)

    def with_events(self, events: Sequence[PastEvent], name: str | None = None) -> InvalidTransition:
        """The same error, with the job's recorded events, oldest first, and its name."""
        return InvalidTransition(self.job, self.state, self.event, events, name)


def _story(events: Sequence[PastEvent]) -> str:
    """``; its events: …``: the last :data:`LONGEST_STORY` of them, each with its time and who caused it."""
    if not events:
        return ""
    n_earlier = len(events) - LONGEST_STORY
    earlier = f"{n_earlier} earlier ones, then " if n_earlier > 0 else ""
    last = ", ".join(
        f"{past.event} at {shown_instant(past.at)} by {past.actor} (then {past.state})"
        for past in events[-LONGEST_STORY:]
    )
    return f"; its events: {earlier}{last}"


class FactorError(RankdError):
    """A factor plugin failed: an exception; values of the wrong number, type or range; or no values in time.

    ``is_passing``: the plugin had too little time, and the next attempt may succeed.
    """

    def __init__(self, factor: str, message: str, *, is_passing: bool = False) -> None:
        super().__init__("factor_failed", f"factor '{factor}': {message}")
        self.factor = factor
        self.is_passing = is_passing


class RoleLost(RankdError):
    """Another instance has taken this role, or may have. This one must not write any more; the other one answers."""

    retryable: ClassVar[bool] = True

    def __init__(self, role: str) -> None:
        super().__init__("role_lost", f"another instance is the {role} now; this one stops", status=503)
        self.role = role


def admins_only(what: str, user: str, field: str | None = None) -> Refused:
    """The refusal of an action that is for administrators only. ``what``: the action; the message begins with it."""
    message = (
        f"{what} is for administrators only; '{user}' asked as an ordinary user (--admin asks as an administrator)"
    )
    return Refused("admins_only", message, field, status=403)


@contextmanager
def usable(path: object, field: str) -> Iterator[None]:
    """Convert the system's error about a path from a user to a refusal with the path.

    Raises:
        Refused: ``bad_path``, if the path can't be used.
        OSError: other errors of the system.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        where = "" if error.filename in (None, str(path)) else f" ({error.filename})"
        raise Refused("bad_path", f"{path} can't be used: {error.strerror}{where}", field) from error
