"""What an asker sees of the records: the looks at jobs, without what ``[privacy] jobs`` hides from this asker.

The intake answers requests with it, and the page shows it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rankd.core.admission.permission import OwnedJob, ThingsOf, check, may
from rankd.core.admission.privacy import is_about_hidden, seen_lacks, seen_late, seen_neighbours, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.model.array import parse_name
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.job_detail import job_detail, owner_of
from rankd.store.look.job_script import job_script
from rankd.store.look.why import why
from rankd.wire.job_selection import JobFilter, JobName

Jobs = TypeVar("Jobs", bound=JobFilter)


def narrowed(wanted: Jobs, asker: Submitter, action: str) -> Jobs:
    """The filter without the jobs that this asker does not see. Hidden values can't be searched for.

    Raises:
        Refused: ``admins_only``: it names other users, whose jobs are hidden.
    """
    for user in wanted.users or ():
        check(asker, action, ThingsOf(user, "looking at jobs"))
    if sees_all(asker):
        return wanted
    if asker.sees == "counts" and not is_about_hidden(msgspec.structs.asdict(wanted)):
        return wanted
    return msgspec.structs.replace(wanted, users=[asker.user])


def check_sees(reader: Reader, job: JobName, asker: Submitter, action: str) -> None:
    """Check that this asker may see this job, if it exists.

    Raises:
        Refused: ``not_owner``.
    """
    if not sees_all(asker) and (owner := owner_of(reader, job)) is not None:
        check(asker, action, OwnedJob(parse_name(job).job, owner))


def job_shown_to(reader: Reader, job: JobName, asker: Submitter) -> Row:
    """All data of a job; its environment only for those who may read it."""
    owner = owner_of(reader, job) or ""
    reads_environment = may(asker, "job.show env", OwnedJob(parse_name(job).job, owner)) is None
    return job_detail(reader, job, owner if reads_environment else "")


def job_script_for(reader: Reader, job: JobName, asker: Submitter) -> Row:
    """The script of a job.

    Raises:
        Refused: ``not_owner``.
    """
    if (owner := owner_of(reader, job)) is not None:
        check(asker, "job.script", OwnedJob(parse_name(job).job, owner))
    return {"id": job, "script": job_script(reader, job)}


def why_for(reader: Reader, job: JobName, asker: Submitter) -> Row:
    """Why a job has its rank, and why it waits."""
    return seen_late(seen_lacks(seen_neighbours(why(reader, job), asker), asker), asker)
