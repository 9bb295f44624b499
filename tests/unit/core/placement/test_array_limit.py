"""How many more tasks of an array may start."""

from rankd.core.placement.array_limit import ArrayLimits


def test_tasks_in_the_array_and_tasks_with_records_share_its_limit():
    limits = ArrayLimits({17: 2}, {20: 17})
    limits.start(17)
    assert not limits.is_reached(17)
    limits.start(20)
    assert limits.is_reached(17)
    assert limits.is_reached(20)


def test_jobs_without_a_limit_are_never_stopped():
    limits = ArrayLimits({17: 0}, {})
    limits.start(3)
    assert not limits.is_reached(3)
    assert limits.is_reached(17)


def test_a_limit_below_what_runs_is_reached():
    assert ArrayLimits({17: -3}).is_reached(17)
