"""Which events of a job its user hears of."""

import pytest

from rankd.core.model.job import Event
from rankd.core.model.notification import ALL, Notify, Wanted, is_wanted, wanted_of

BOTH = Wanted.END | Wanted.TASKS


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        (Wanted.START, "start"),
        (Wanted.END, "complete fail time_out cancel lose_node exceed_memory"),
        (Wanted.FAIL, "fail time_out lose_node exceed_memory"),
        (Wanted.TIMEOUT, "time_out"),
        (Wanted.REQUEUE, "requeue"),
        (Wanted.IDLE, "idle"),
        (ALL, "start complete fail time_out cancel lose_node exceed_memory requeue idle"),
        (Wanted.TASKS, ""),
    ],
)
def test_each_kind_is_about_these_events(wanted, heard):
    assert {event for event in Event if is_wanted(event.value, wanted)} == set(heard.split())


def test_all_stands_for_every_event_but_says_nothing_of_tasks():
    assert wanted_of(Notify(on=["all"])) == ALL
    assert wanted_of(Notify(on=["all", "tasks"])) == ALL | Wanted.TASKS


def test_an_array_notifies_as_a_whole_or_by_its_tasks():
    assert [is_wanted("fail", Wanted.END, is_array=a, is_task=t) for a, t in ((1, 0), (0, 1))] == [True, False]
    assert [is_wanted("fail", BOTH, is_array=a, is_task=t) for a, t in ((1, 0), (0, 1))] == [False, True]


def test_the_start_of_a_task_may_be_the_start_of_its_array():
    assert is_wanted("start", Wanted.START, is_task=True)
    assert not is_wanted("requeue", ALL, is_task=True)
