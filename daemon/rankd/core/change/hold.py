"""Who holds a job. A hold by somebody else than the job's owner is an administrator's: the owner can't end it.

That is an administrator of rankd or of the job's queue. An administrator of the queue ends the own holds, and those of
the owner.
"""

from __future__ import annotations

from rankd.core.admission.permission import may
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused


def holder(owner: str, held_by: str | None, asker: Submitter) -> str:
    """Who holds the job after this asker has held it. An administrator's hold does not become its owner's."""
    if held_by is not None and is_of_administrator(owner, held_by) and not asker.privileged:
        return held_by
    return asker.user


def is_of_administrator(owner: str, held_by: str | None) -> bool:
    """Whether an administrator holds the job. None: nobody, or it was held before this was recorded."""
    return held_by is not None and held_by != owner


def check_release(job: int | str, owner: str, held_by: str | None, asker: Submitter) -> None:
    """Check that this asker may end the hold. ``job``: how people name it.

    Raises:
        Refused: ``admin_hold``.
    """
    if (
        held_by != asker.user
        and is_of_administrator(owner, held_by)
        and may(asker, "job.release of an administrator's hold")
    ):
        message = f"job {job} is held by the administrator '{held_by}'; ask for its release, or cancel it"
        raise Refused("admin_hold", message, "id", status=403)
