"""What a job used and what it waited for, in words."""

from rankd.cli.look.outcome_line import used, waited

ENDED = {"nodelist": "n1", "started_at": 100.0, "ended_at": 3700.0, "time_limit_s": 3600.0, "cores": 4.0}


def test_use_is_beside_the_limits():
    job = ENDED | {"cpu_s": 7200.0, "memory": 4 * 2**30, "max_rss_bytes": 2**30}
    assert used(job) == "it ran 1:00:00 of 1:00:00, used 2.0 of 4 cores (50 %) and at most 1G of 4G of memory"


def test_without_limits_and_measures_only_the_time_is_said():
    assert used({"nodelist": "n1", "started_at": 100.0, "ended_at": 102.5}) == "it ran 2.5 s"
    assert used({"started_at": None, "ended_at": 5.0}) == ""


def test_the_parts_of_a_wait_are_named_and_those_of_nothing_are_not():
    parts = {"waited_dependency_s": 0.0, "waited_held_s": 90.0, "waited_starting_s": 0.25}
    assert waited(parts) == ["It waited 1:30: 1:30 held or begin, 0.25 s starting."]
    assert waited({"waited_held_s": None}) == []
