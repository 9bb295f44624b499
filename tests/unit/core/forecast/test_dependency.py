import pytest

from rankd.core.admission.dependency import Blocked, Progress
from rankd.core.forecast.dependency import needs_of
from rankd.core.forecast.live import Need
from rankd.core.model.job import Dependency, State

RUNS = {17: Progress(State.RUNNING, has_begun=True)}
WAITS = {17: Progress(State.PENDING, has_begun=False)}


def blocked(*dependencies):
    return Blocked(job=18, held=False, begin_at=None, depends_on=dependencies)


@pytest.mark.parametrize(
    ("kind", "progress", "needs"),
    [
        ("afterok", RUNS, (Need(17, "ended"),)),
        ("afterany", RUNS, (Need(17, "ended"),)),
        ("after", RUNS, ()),
        ("after", WAITS, (Need(17, "begun"),)),
        ("afterok", {17: Progress(State.COMPLETED, has_begun=True)}, ()),
    ],
)
def test_a_job_needs_the_begin_or_the_end_of_those_that_it_waits_for(kind, progress, needs):
    assert needs_of(blocked(Dependency(type=kind, job=17)), progress, {}) == needs


def test_nobody_can_tell_when_a_job_will_fail_or_what_has_failed_completes():
    assert "to fail" in needs_of(blocked(Dependency(type="afternotok", job=17)), RUNS, {})
    failed = {17: Progress(State.FAILED, has_begun=True)}
    assert "can't be met" in needs_of(blocked(Dependency(type="afterok", job=17)), failed, {})


def test_a_singleton_waits_for_the_last_job_of_its_name():
    assert needs_of(blocked(Dependency(type="singleton")), {}, {18: 12}) == (Need(12, "ended"),)
    assert needs_of(blocked(Dependency(type="singleton")), {}, {}) == ()


def test_a_task_is_taken_to_end_with_its_array():
    progress = {"17_3": Progress(State.PENDING, has_begun=False)}
    assert needs_of(blocked(Dependency(type="afterok", job="17_3")), progress, {}) == (Need(17, "ended"),)
