"""What the client raises: one class per family of codes. All are :class:`rankd.core.errors.RankdError`.

Each error has ``code`` (stable), ``message`` (for people), ``field`` (which argument) and ``status``.
"""

from __future__ import annotations

from typing import ClassVar

from rankd.core.errors import RankdError
from rankd.wire.job_selection import JobName


class RequestError(RankdError):
    """A request that failed. Other classes say why; this one itself means a fault of the service (500)."""

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 500) -> None:
        super().__init__(code, message, field, status)


class BadRequest(RequestError):
    """400: the request is not valid. The same request fails again."""


class NotAllowed(RequestError):
    """401 and 403: this user may not do that, or the broker does not accept the credentials."""


class NotFound(RequestError):
    """404: what the request names does not exist."""


class Conflict(RequestError):
    """409: the state of what it names does not allow that, such as releasing a job that runs."""


class TooLarge(RequestError):
    """413: the request or its answer is too large."""


class OverLimit(RequestError):
    """429: a limit is reached. The same request may succeed later."""

    retryable: ClassVar[bool] = True


class NotReady(RequestError):
    """503: no rankd was found, or none answers. The same request may succeed later."""

    retryable: ClassVar[bool] = True


class Closed(RequestError):
    """The client was closed while it was asked (``closed``)."""

    def __init__(self) -> None:
        super().__init__("closed", "the client was closed meanwhile", status=499)


class WaitTimeout(RequestError, TimeoutError):
    """Jobs have not ended in the time that the caller gave (``wait_timeout``). ``left``: these jobs."""

    def __init__(self, left: list[JobName]) -> None:
        shown = ", ".join(map(str, left[:5])) + (", …" if len(left) > 5 else "")
        super().__init__("wait_timeout", f"not ended in time: {shown}", status=504)
        self.left = left


FAMILIES: dict[int, type[RequestError]] = {
    400: BadRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: OverLimit,
    503: NotReady,
}
"""The classes by status."""


_ARGUMENTS = {"id": "job", "ids": "jobs"}
"""What methods call fields of requests that have other names."""


def as_raised(error: RankdError) -> RequestError:
    """The error of the family of this one. It names arguments of methods, not paths in requests (``$.nodes``)."""
    if isinstance(error, RequestError):
        return error
    family = FAMILIES.get(error.status, BadRequest if 400 <= error.status < 500 else RequestError)
    field = None if error.field is None else error.field.removeprefix("$.")
    return family(error.code, error.message.replace("`$.", "`"), _ARGUMENTS.get(field or "", field), error.status)
