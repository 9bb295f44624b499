"""What a blocked job waits for, as a forecast can follow it: jobs that have to begin or to end."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.admission.dependency import Awaited, Blocked, Progress, Standing, awaited, job_in, standing
from rankd.core.forecast.live import Need
from rankd.core.model.job import SINGLETON

_BEGUN = "after"
_NOT_OK = "afternotok"


def needs_of(
    blocked: Blocked, progress: Mapping[Awaited, Progress], before: Mapping[int, int]
) -> tuple[Need, ...] | str:
    """The jobs that this one waits for; or, in words, why nobody can tell when it becomes eligible.

    Awaited jobs are taken to complete. A task of an array is taken to end with the array. ``before``: of the jobs that
    wait for earlier ones of their name, the last such job that has not ended.
    """
    needs: list[Need] = []
    for one in blocked.depends_on:
        if one.type == SINGLETON:
            needs += [Need(before[blocked.job], "ended")] if blocked.job in before else []
            continue
        name = awaited(one, blocked.task)
        other = None if name is None else progress.get(name)
        if name is None or other is None:
            continue
        how = standing(one.type, other)
        if how is Standing.NEVER:
            return f"job {name} ended otherwise, so {one.type} can't be met any more"
        if how is Standing.MET:
            continue
        if one.type == _NOT_OK:
            return f"it waits for job {name} to fail"
        needs.append(Need(job_in(name), "begun" if one.type == _BEGUN else "ended"))
    return tuple(dict.fromkeys(needs))
