import pytest

from rankd.cli.look.when import told
from rankd.wire.forecast_record import JobWhen

AT = 1_700_000_000.0


def answer(**fields):
    given = {"id": 7, "user": "alice", "state": "pending", "made_at": AT, "age_s": 12.0, **fields}
    return list(told(JobWhen(**given)))


def test_a_range_has_both_ends_its_age_and_what_it_does_not_assume():
    first, age = answer(early=AT + 60, late=AT + 600)
    assert first.startswith("Job 7 starts between 2023-11-1")
    assert " and 2023-11-1" in first
    assert age == "The forecast is 0:12 old; later arrivals are not assumed."


def test_equal_ends_are_one_time():
    assert answer(early=AT, late=AT)[0].startswith("Job 7 starts by 2023-11-1")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"unknown": "beyond the horizon"}, "Job 7: no start can be told: beyond the horizon."),
        ({"unknown": "held", "unknown_fact": "by root"}, "Job 7: no start can be told: held: by root."),
        ({}, "Job 7: no start can be told: it came after the last forecast; ask again in a moment."),
        ({"made_at": None}, "Job 7 has no range yet: no forecast was made. Ask again in a minute; see `rankd diag`."),
        ({"state": "running"}, "Job 7 is running."),
        ({"unknown": "held", "array_job": 5, "array_task": 3}, "Job 5_3: no start can be told: held."),
    ],
)
def test_a_job_without_a_range_says_why(fields, expected):
    assert answer(**fields)[0] == expected


def test_a_job_behind_one_without_a_limit_has_an_earliest_start_only():
    [first, _] = answer(early=AT, unknown="no time limit", unknown_fact="jobs without one are before it")
    assert "at the earliest. No latest start can be told (no time limit: jobs without one are before it)." in first


def test_the_rank_and_the_present_reason_are_told():
    lines = answer(early=AT, late=AT, rank=3, of=9, limited_by="resources", limited_by_fact="too few cores")
    assert lines[2:] == ["Its rank is 3 of 9.", "Now it waits because of 'resources': too few cores."]
