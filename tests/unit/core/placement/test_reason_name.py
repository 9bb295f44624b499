"""Facts that name a job: found in all of the texts that do, and in no other."""

import pytest

from rankd.core.placement.reason import in_order, reserved
from rankd.core.placement.reason_name import job_in, with_name


@pytest.mark.parametrize("fact", [reserved("n1", 12, 0.0).fact, in_order(12).fact])
def test_the_job_of_a_fact_gets_its_name(fact):
    assert job_in(fact) == 12
    named = with_name(fact, "5_3")
    assert "job 5_3" in named
    assert "12" not in named.partition(" from ")[0]
    assert job_in(named) is None


@pytest.mark.parametrize("fact", ["", "queue root.a allows 3 jobs", "afterok of job 12 (pending)", "job 12"])
def test_other_facts_stay(fact):
    assert job_in(fact) is None
    assert with_name(fact, "5_3") == fact
