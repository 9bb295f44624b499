"""Changing the time limit of a running job. Nothing else of a running job can be changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

import msgspec

from rankd.core.admission.admit import check_when
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_update import LIMIT, StoredJob
from rankd.core.errors import Refused, admins_only

_encode = msgspec.json.Encoder().encode


class RunningLimit(NamedTuple):
    """The new time limit of a running job (seconds; None: none). ``request``: its request with it, as JSON."""

    job: int
    stored: StoredJob
    before: float | None
    after: float | None
    request: str

    @property
    def changes(self) -> Mapping[str, tuple[object, object]]:
        """(before, after) of the limit; empty if the job has it already."""
        return {} if self.before == self.after else {LIMIT: (self.before, self.after)}


def decide_limit(
    job: int, stored: StoredJob, given: Mapping[str, object], asker: Submitter, default: float | None = None
) -> RunningLimit:
    """The result of an update for one running job, with which the asker may do this.

    ``given``: the changed fields, and those beside them that are no fields of a request. ``default``: the limit
    (seconds) of a job that asks for none, as configured.

    Raises:
        Refused: ``not_pending`` (another field), ``bad_time_limit``, ``admins_only`` (a longer limit).
    """
    _check_fields(stored.name(job), given.keys())
    request, before = stored.admitted.request, stored.admitted.request.time_limit_s
    if LIMIT not in given:
        raise Refused(
            "not_pending", f"job {stored.name(job)} is running; only its time limit can be changed", LIMIT, 409
        )
    asked = cast("float | None", given[LIMIT])
    after = default if asked is None else asked
    if after is not None and not 0 < after < math.inf:
        raise Refused("bad_time_limit", f"time_limit_s is {after}; give seconds above 0", LIMIT)
    if not asker.privileged and (math.inf if after is None else after) > (math.inf if before is None else before):
        raise admins_only("a longer time limit of a running job", asker.user, LIMIT)
    changed = msgspec.structs.replace(request, time_limit_s=after)
    check_when(changed)
    return RunningLimit(job, stored, before, after, _encode(changed).decode())


def _check_fields(name: str, given: Collection[str]) -> None:
    if others := sorted(set(given) - {LIMIT}):
        message = (
            f"job {name} is running; only its time limit can be changed, not {', '.join(others)}; a pending job can be"
            " changed in all fields"
        )
        raise Refused("not_pending", message, others[0], 409)
