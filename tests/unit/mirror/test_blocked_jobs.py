from builder import NOW

from rankd.core.admission.dependency import Blocked, ByIndex
from rankd.core.model.job import Dependency
from rankd.mirror.blocked_jobs import BlockedJobs
from rankd.store.feed.job import ChangedJob


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


# --- what has to be looked at -------------------------------------------------------------------------------


def changed(job, state="completed", **fields):
    """A job as the records have it, of which only these fields matter here."""
    values = dict.fromkeys(ChangedJob._fields, 0) | {"id": job, "state": state, "array_job": None, "cancelled": 0}
    return ChangedJob(**values | fields)


def due_jobs(known, *changes):
    known.note(changes)
    return known.take_due(NOW).jobs


def settled(*rows):
    """A table of which everything has been looked at."""
    known = table(*rows)
    known.take_due(NOW)
    return known


def test_of_a_chain_each_end_concerns_one_job():
    """However long the chain is: the work of an event is counted, not its time."""
    length = 20_000
    known = settled(*(blocked(job, job - 1) for job in range(2, length)))
    assert sum(len(due_jobs(known, changed(job))) for job in range(1, length)) == length - 2


def test_of_jobs_of_one_name_each_end_concerns_the_next_one():
    length = 20_000
    singles = [
        Blocked(job=job, held=False, begin_at=None, depends_on=(Dependency(type="singleton"),))
        for job in range(2, length)
    ]
    known = settled(*singles)
    known.note_predecessors({job: job - 1 for job in range(2, length)})
    assert sum(len(due_jobs(known, changed(job))) for job in range(1, length)) == length - 2
    known.note_predecessors({7: 3})
    assert due_jobs(known, changed(3, "pending")) == {4, 7}, "it may have another name now"


def test_a_new_blocked_job_has_to_be_looked_at():
    assert table(blocked(3, 1)).take_due(NOW).jobs == {3}
    known = settled(blocked(3, 1))
    known.put_back(known.take_due(NOW))
    assert not known.take_due(NOW)


def test_of_an_array_only_what_matters_to_those_who_wait_concerns_them():
    waits = [Dependency(type=kind, job=1) for kind in ("afterok", "after")]
    by_type = [Blocked(job=3 + n, held=False, begin_at=None, depends_on=(one,)) for n, one in enumerate(waits)]
    known = settled(*by_type, blocked(9, "1_5"))
    task = {"array_job": 1, "array_task": 4}
    assert due_jobs(known, changed(20, **task)) == set(), "a task has completed"
    assert due_jobs(known, changed(21, "failed", **task)) == {3, 4}, "the array can't complete any more"
    assert due_jobs(known, changed(22, "failed", **task)) == set(), "that is known"
    assert due_jobs(known, changed(23, **task | {"array_task": 5})) == {9}
    assert due_jobs(known, changed(1, "pending", cancelled=3)) == {9}
    assert due_jobs(known, changed(1, "pending", cancelled=3)) == set()
    assert due_jobs(known, changed(1, "failed")) == {3, 4, 9}
    known.note([changed(24, "running", **task)])
    assert known.take_due(NOW).begun == {1}
    assert known.begun([1]) == {4}
    known.note([changed(25, "running", **task)])
    assert known.take_due(NOW).begun == set()


def test_of_an_array_by_index_the_ends_of_counterparts_are_collected():
    waits = (Dependency(type="aftercorr", job=1),)
    one = Blocked(job=3, held=False, begin_at=None, depends_on=waits, by_index=ByIndex(tasks=9, eligible=0, unmet=0))
    known = settled(one)
    known.note([changed(20 + task, array_job=1, array_task=task) for task in (4, 7)])
    assert known.take_due(NOW).tasks == {3: {4, 7}}
    known.note([changed(1, "failed")])
    assert known.take_due(NOW).arrays == {3}
    known.look_at_all()
    assert known.take_due(NOW).arrays == {3}
    assert known.arrays_of([3, 4]).keys() == known.of([3]).keys() == {3}
    known.note_shown([3], "dependency never satisfied")
    assert known.by_id[3].shown == "dependency never satisfied"
