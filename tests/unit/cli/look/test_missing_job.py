"""Named jobs that a list does not have. What every command prints: `test_look.py`."""

import pytest

from rankd.cli.look.missing_job import MOST_ASKED, has_nothing, say_if_unnamed
from rankd.core.errors import Refused
from rankd.wire.message import JobFilter


class Records:
    """Only the array 17 with the tasks 0 to 9, and bob's job 20."""

    def __init__(self):
        self.asked = []

    def job(self, name):
        self.asked.append(name)
        if name == 20:
            raise Refused("not_owner", "job 20 belongs to 'bob'")
        if name not in (17, *(f"17_{task}" for task in range(10))):
            raise Refused("unknown_job", f"there is no job {name}")
        return {}


ARRAY = {"id": 17, "array": "4-9"}
TASK = {"id": 18, "array_job": 17, "array_task": 2}
GONE = {"id": 17, "array_job": 17, "array_task": None, "array": "0-1"}


@pytest.mark.parametrize(
    "row_and_name",
    [(ARRAY, 17), (ARRAY, "17_7"), (TASK, 17), (TASK, 18), (TASK, "17_2"), (TASK, "17-17"), (GONE, "17_0")],
)
def test_a_name_is_found_by_a_row_of_it(row_and_name):
    row, name = row_and_name
    records = Records()
    assert not has_nothing(records, JobFilter(ids=[name]), [row])
    assert records.asked == []


def test_a_job_that_exists_but_does_not_match_is_not_reported(capsys):
    assert not has_nothing(Records(), JobFilter(ids=[17, "17_[3-4]"], states=["failed"]), [])
    assert capsys.readouterr().err == ""


def test_very_many_missing_names_are_not_all_looked_up(capsys):
    records = Records()
    assert has_nothing(records, JobFilter(ids=list(range(100, 200))), [])
    assert len(records.asked) == MOST_ASKED
    assert capsys.readouterr().err.endswith("109, …\n")


def test_what_the_asker_may_not_see_is_refused_as_by_show():
    with pytest.raises(Refused, match="job 20 belongs to 'bob'"):
        has_nothing(Records(), JobFilter(ids=[20]), [])


def test_a_list_without_names_is_never_missing_anything():
    assert not has_nothing(Records(), JobFilter(), [])


def test_names_that_no_job_has_may_be_meant_as_sacct_s_n(capsys):
    say_if_unnamed(JobFilter(names=["XP"]), [])
    assert capsys.readouterr().err == (
        "rankd: no job here has the name XP; -n is --name in rankd; -H leaves out the header\n"
    )
    say_if_unnamed(JobFilter(names=["XP"]), [ARRAY])
    say_if_unnamed(JobFilter(), [])
    assert capsys.readouterr().err == ""
