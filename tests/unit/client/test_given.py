import pytest

from rankd.client.given import listed, with_dependencies
from rankd.client.job_form import job_of
from rankd.client.operation import act, queue, update, wanted_events
from rankd.client.step import Effort
from rankd.core.errors import Refused
from rankd.wire.codec import decode_strict
from rankd.wire.page import JobList
from rankd.wire.submission import Submitted


def test_a_single_name_is_a_list_of_one_in_every_condition():
    asked = next(queue({"users": "root", "states": "pending", "ids": 17, "names": ("a", "b")}, Effort(0)))
    wanted = decode_strict(asked.payload, JobList)
    assert (wanted.users, wanted.states, wanted.ids, wanted.names) == (["root"], ["pending"], [17], ["a", "b"])
    assert wanted_events(None, "root").users == ["root"]
    assert wanted_events("17_3", None).jobs == ["17_3"]
    assert listed("ab") == ["ab"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (17, [("afterok", 17)]),
        ("17_3", [("afterok", "17_3")]),
        (Submitted(id=17), [("afterok", 17)]),
        ("afterany:1:2,aftercorr:3", [("afterany", 1), ("afterany", 2), ("aftercorr", 3)]),
        ([1, "afternotok:2", {"type": "after", "job": 3}], [("afterok", 1), ("afternotok", 2), ("after", 3)]),
        ({"type": "after", "job": 3}, [("after", 3)]),
    ],
)
def test_dependencies_are_ids_or_slurms_syntax(given, expected):
    job = job_of(None, {"command": ["true"], "depends_on": given}, is_local=False)
    assert [(one["type"], one["job"]) for one in job["depends_on"]] == expected


def test_a_wrong_dependency_names_the_argument_and_what_to_write():
    with pytest.raises(Refused, match=r"depends_on: 'after_ok:1' .*write afterok:1") as caught:
        with_dependencies({"depends_on": "after_ok:1"})
    assert (caught.value.code, caught.value.field) == ("bad_dependency", "depends_on")


def test_wrong_arguments_are_refused_by_their_names():
    with pytest.raises(Refused, match="unknown field `nmae`"):
        next(update(17, {"nmae": "x"}, Effort(0), dry_run=False))
    with pytest.raises(Refused, match="at `urgency`"):
        next(update(17, {"urgency": "high"}, Effort(0), dry_run=False))
    with pytest.raises(Refused) as caught:
        next(act("job.cancel", None, {}, Effort(0), dry_run=False))
    assert caught.value.field == "jobs"
