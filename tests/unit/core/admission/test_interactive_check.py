"""What an interactive job can't be."""

import pytest

from rankd.core.admission.interactive_check import check_interactive
from rankd.core.errors import Refused
from rankd.core.model.job import Interactive, JobRequest


def job(interactive=None, **fields):
    return JobRequest(command=["cat"], interactive=interactive, **fields)


@pytest.mark.parametrize(
    "request_",
    [
        job(Interactive(), array="0-3"),
        job(Interactive(), script="#!/bin/sh\n"),
        job(Interactive(), stdin="/in"),
        job(Interactive(input=False, pty=True), stdin="/in"),
    ],
)
def test_a_job_with_other_input_or_several_runs_is_not_interactive(request_):
    with pytest.raises(Refused) as refusal:
        check_interactive(request_)
    assert (refusal.value.code, refusal.value.field) == ("bad_interactive", "interactive")


@pytest.mark.parametrize(
    "request_", [job(), job(Interactive()), job(Interactive(input=False), stdin="/in"), job(array="0-3")]
)
def test_other_jobs_pass(request_):
    check_interactive(request_)
