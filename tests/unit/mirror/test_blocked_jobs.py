from builder import NOW

from rankd.core.admission.dependency import Blocked
from rankd.core.model.job import Dependency
from rankd.mirror.blocked_jobs import BlockedJobs


def blocked(job, *others, begin_at=None):
    depends_on = tuple(Dependency(type="afterok", job=other) for other in others)
    return Blocked(job=job, held=False, begin_at=begin_at, depends_on=depends_on)


def table(*rows):
    known = BlockedJobs()
    known.replace([], rows)
    return known


def test_a_change_concerns_the_jobs_that_wait_for_it():
    known = table(blocked(3, 1, 2), blocked(4, 2), blocked(5))
    assert known.concerned([1], NOW).keys() == {3}
    assert known.concerned([2], NOW).keys() == {3, 4}
    assert known.concerned([3, 9], NOW) == {}


def test_a_begin_time_that_has_come_concerns_its_job():
    known = table(blocked(3, begin_at=NOW), blocked(4, begin_at=NOW + 5), blocked(5, begin_at=NOW + 9))
    assert known.concerned([], NOW).keys() == {3}
    assert known.next_begin(NOW) == NOW + 5
    assert known.next_begin(NOW + 9) is None


def test_a_job_that_has_changed_waits_for_what_it_waits_for_now():
    known = table(blocked(3, 1, begin_at=NOW), blocked(4, 1))
    known.replace([3], [blocked(3, 2)])
    assert known.concerned([1], NOW).keys() == {4}
    assert known.concerned([2], NOW).keys() == {3}


def test_a_job_that_is_not_blocked_any_more_is_forgotten():
    known = table(blocked(3, 1, begin_at=NOW), blocked(4, 1))
    known.replace([3, 4], [])
    assert known.by_id == {}
    assert known.concerned([1], NOW) == {}
    assert known.next_begin(NOW - 1) is None


def test_a_job_that_waits_for_a_task_is_not_concerned_by_others_of_its_array():
    known = table(blocked(3, "1_7"))
    assert known.concerned(["1_7"], NOW).keys() == {3}
    assert known.concerned([1, "1_8"], NOW) == {}


def test_after_clearing_it_nothing_is_blocked():
    known = table(blocked(3, 1, begin_at=NOW))
    known.clear()
    assert known.by_id == {}
    assert known.concerned([1], NOW) == {}
