"""Which jobs are cancelled with others because they can never start."""

from rankd.core.admission.dependency import Blocked
from rankd.core.admission.unmet import doomed_jobs
from rankd.core.model.job import Dependency


def blocked(job, *others, kind="afterok", **fields):
    depends_on = tuple(Dependency(type=kind, job=other) for other in others)
    return Blocked(job=job, held=False, begin_at=None, depends_on=depends_on, order=job, **fields)


def doomed(first, *others, spared=()):
    asked = []

    def waiting_for(names):
        asked.append(names)
        return [one for one in others if any(dependency.job in names for dependency in one.depends_on)]

    found = list(doomed_jobs([first], waiting_for, lambda one: one.job not in spared))
    return found, asked


def test_a_chain_goes_from_each_job_to_those_that_need_it():
    chain = [blocked(job, job - 1) for job in range(2, 1000)]
    found, asked = doomed(blocked(1), *chain[:50])
    assert found == list(range(1, 52))
    assert len(asked) == len(found), "each job is asked about once"


def test_a_job_with_several_paths_is_named_once():
    assert doomed(blocked(1), blocked(2, 1), blocked(3, 1), blocked(4, 2, 3))[0] == [1, 2, 3, 4]


def test_jobs_that_do_not_need_completion_or_are_spared_stay():
    others = [blocked(2, 1, kind="afterany"), blocked(3, 1, kind="afternotok"), blocked(4, 1), blocked(5, 4)]
    assert doomed(blocked(1), *others, spared=(4,))[0] == [1]


def test_a_task_is_awaited_by_its_name_and_as_part_of_its_array():
    task = Blocked(job=30, held=False, begin_at=None, order=17, task=3)
    others = [blocked(31, "17_3"), blocked(32, 17), blocked(33, "17_4"), blocked(34, 30)]
    assert doomed(task, *others)[0] == [30, 31, 32, 34]
