"""Paths of a job have a limit on length and depth."""

from __future__ import annotations

import pytest
from builder import admission_tables

from rankd.core.admission.admit import admit
from rankd.core.admission.path_limit import MAX_PATH_BYTES, MAX_PATH_DEPTH, PATH_FIELDS, check_paths
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest


def request_with(field: str, path: str) -> JobRequest:
    return JobRequest(command=["true"], **{field: path})


@pytest.mark.parametrize("field", PATH_FIELDS)
def test_the_longest_and_deepest_path_is_accepted_and_one_more_is_not(field):
    check_paths(request_with(field, "/" + "x" * (MAX_PATH_BYTES - 1)))
    check_paths(request_with(field, "/d" * MAX_PATH_DEPTH))
    with pytest.raises(Refused, match=f"{field} is a path of 4097 bytes; the limit is 4096") as long:
        check_paths(request_with(field, "/" + "x" * MAX_PATH_BYTES))
    with pytest.raises(Refused, match=f"{field} is a path of 65 directories; the limit is 64") as deep:
        check_paths(request_with(field, "/d" * (MAX_PATH_DEPTH + 1)))
    assert [(error.value.code, error.value.field) for error in (long, deep)] == [
        ("path_too_long", field),
        ("path_too_deep", field),
    ]


def test_length_is_in_bytes():
    with pytest.raises(Refused, match="path of 4098 bytes"):
        check_paths(request_with("stdout", "é" * 2_049))


def test_a_submission_is_held_to_them():
    request = request_with("stdout", "/d" * 1_100)
    with pytest.raises(Refused, match="limit is 64"):
        admit(request, Submitter("alice", privileged=True), admission_tables())
