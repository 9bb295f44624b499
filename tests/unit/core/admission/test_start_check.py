"""What would keep a job from starting if it were submitted now."""

import pytest
from builder import accepted

from rankd.core.admission.dependency import Progress
from rankd.core.admission.start_check import Wait, never_starts, waits_of
from rankd.core.model.index_set import parse
from rankd.core.model.job import Dependency, State

NOW = 1_800_000_000.0
PROGRESS = {
    17: Progress(State.RUNNING, has_begun=True),
    18: Progress(State.FAILED, has_begun=True),
    "19_3": Progress(State.COMPLETED, has_begun=True),
    20: Progress(State.RUNNING, has_begun=True, is_spoilt=True),
}


def waits(earlier=None, depends_on=(), begin_at=None, **fields) -> list[tuple[str, str]]:
    job = accepted(request={"depends_on": list(depends_on), "begin_at": begin_at}, **fields)
    return [(wait.reason, wait.reason_fact) for wait in waits_of(job, PROGRESS, earlier, NOW)]


def test_a_job_without_conditions_may_start():
    assert waits() == []
    assert waits(begin_at=NOW - 1) == []


@pytest.mark.parametrize(
    ("job", "wait"),
    [
        ({"held": True}, ("held", "it asks to be held")),
        ({"urgency": 0}, ("held", "its urgency is 0")),
        ({"begin_at": NOW + 60}, ("begin time", "not before 2027-01-15T08:01:00Z")),
    ],
)
def test_a_hold_and_a_begin_time_are_named(job, wait):
    assert waits(**job) == [wait]


@pytest.mark.parametrize(
    ("kind", "job", "wait"),
    [
        ("afterok", 17, ("dependency", "afterok of job 17 (running)")),
        ("afterok", 18, ("dependency never satisfied", "afterok of job 18 (failed)")),
        ("afterany", 18, None),
        ("after", 17, None),
        ("afterok", "19_3", None),
        ("aftercorr", 20, ("dependency", "aftercorr of job 20 (a task did not complete)")),
    ],
)
def test_a_dependency_that_is_not_met_is_named(kind, job, wait):
    assert waits(depends_on=[Dependency(type=kind, job=job)]) == ([] if wait is None else [wait])


@pytest.mark.parametrize(
    ("kind", "job", "said"),
    [
        ("afterok", 17, []),
        ("afterok", 18, ["the job can never start: afterok of job 18 (failed); change that with"]),
        ("afterok", 20, ["the job can never start: afterok of job 20 (a task did not complete); change that with"]),
        ("afterok", 99, []),
        (
            "aftercorr",
            20,
            ["tasks 1,4 can never start: aftercorr of array 20, whose tasks of the same"],
        ),
        ("aftercorr", 21, ["task 4 can never start: aftercorr of array 21, whose tasks of the same indices did not"]),
        ("aftercorr", 22, []),
    ],
)
def test_what_can_never_start_is_said_at_once(kind, job, said):
    unmet = {20: parse("1,4"), 21: parse("4"), 22: ()}
    new = accepted(request={"depends_on": [Dependency(type=kind, job=job), Dependency(type="singleton")]})
    found = list(never_starts(new, PROGRESS, unmet))
    assert [text.startswith(start) for text, start in zip(found, said, strict=True)] == [True] * len(said)


def test_a_singleton_waits_for_an_earlier_job_of_the_same_name():
    singleton = [Dependency(type="singleton")]
    assert waits(depends_on=singleton) == []
    assert waits(depends_on=singleton, earlier=5) == [("dependency", "singleton after job 5")]


def test_all_conditions_are_named():
    both = waits(held=True, begin_at=NOW + 60, depends_on=[Dependency(type="afterok", job=17)])
    assert [reason for reason, _ in both] == ["held", "dependency", "begin time"]


def test_the_form_is_that_of_replies():
    job = accepted(held=True)
    assert waits_of(job, {}, None, NOW) == [Wait(reason="held", reason_fact="it asks to be held")]
