import pytest

from rankd.cli.look.usage_period import periods
from rankd.cli.look.usage_summary import Uses, columns, summed, summed_per

NOW = 1_000.0
NAMES = ("core_s", "gpu_s", "memory_byte_s")
DAY_S = 86_400


def job(user, state="completed", core_s=0.0, gpu_s=0.0, **more):
    return {"user": user, "account": "physics", "state": state, "core_s": core_s, "gpu_s": gpu_s, **more}


USES = Uses(
    {name: lambda row, name=name: row.get(name, 0.0) for name in NAMES},
    lambda row: row.get("ended_at") or NOW,
)


def of(rows, key, **period):
    return summed(rows, key, USES, **period)


def test_hours_are_summed_per_user_and_account_with_the_largest_use_first():
    rows = [job("alice", core_s=3600.0), job("bob", "failed", 7200.0, 1800.0), job("alice", core_s=1800.0)]
    assert [(one["user"], one["jobs"], one["completed"]) for one in of(rows, "user")] == [
        ("bob", 1, 0),
        ("alice", 2, 2),
    ]
    [account] = of(rows, "account")
    shown = [field.shown(account) for field in columns("account")]
    assert shown == ["physics", "3", "2", "3.50", "0.50", *["0.00"] * 7]


def test_an_array_counts_by_its_tasks():
    task = job("alice", core_s=60.0, array_job=1, array_task=0)
    [one] = of([job("alice", core_s=60.0, tasks=[task]), task], "user")
    assert (one["user"], one["jobs"], one["completed"], one["core_s"], one["gpu_s"]) == ("alice", 1, 1, 60.0, 0.0)


def test_all_runs_of_a_job_that_was_queued_again_count():
    again = job("alice", core_s=60.0, gpu_s=10.0, earlier_core_s=30.0, earlier_gpu_s=5.0)
    [one] = of([again], "user")
    assert (one["jobs"], one["core_s"], one["gpu_s"]) == (1, 90.0, 15.0)


def test_jobs_of_hidden_users_are_summed_too():
    assert [one["user"] for one in of([job(None), job("alice", gpu_s=1.0)], "user")] == ["alice", None]


def test_only_what_lies_in_the_period_counts_and_waits_are_summed_by_cause():
    long = job("alice", core_s=100.0, memory_byte_s=2.0**30, started_at=0.0, ended_at=100.0, waited_quota_s=5.0)
    [one] = of([long, job("alice", waited_quota_s=2.0, waited_held_s=None)], "user", since=50.0, until=200.0)
    assert (one["core_s"], one["memory_byte_s"], one["waited_quota_s"], one["waited_held_s"]) == (
        50.0,
        2.0**29,
        7.0,
        0.0,
    )
    assert of([long], "user", since=150.0)[0]["core_s"] == 0.0


def test_a_run_that_goes_on_counts_from_the_begin_of_the_period():
    running = job("alice", "running", core_s=1000.0, started_at=0.0, ended_at=None)
    assert of([running], "user", since=750.0)[0]["core_s"] == 250.0
    assert of([running], "user", since=750.0, until=800.0)[0]["core_s"] == 50.0


@pytest.mark.parametrize("length", ["day", "week", "month"])
def test_periods_add_up_exactly_to_the_whole(length):
    since, until = 3.3 * DAY_S, 71.7 * DAY_S
    rows = [
        job(
            ("alice", "bob", None)[place % 3], "completed" if place % 2 else "failed", place * 12_345.678, place / 7,
            memory_byte_s=place * 1e15 / 3, submitted_at=place * DAY_S / 3, started_at=place * DAY_S / 2.7 + 0.1,
            ended_at=place * DAY_S / 2.5 + 17.3, waited_held_s=place / 8, earlier_core_s=place * 1.1,
        )
        for place in range(1, 200)
    ]  # fmt: skip
    parts = summed_per(rows, "user", USES, periods(since, until, length))
    assert len({part["period"] for part in parts}) > 2
    for whole in of(rows, "user", since=since, until=until):
        own = [part for part in parts if part["user"] == whole["user"]]
        for name in ("jobs", "completed", *NAMES, "waited_held_s"):
            assert sum(part[name] for part in own) == whole[name], name


def test_a_job_counts_once_and_its_run_in_each_period_that_it_touches():
    days = periods(0.5 * DAY_S, 3.5 * DAY_S, "day")
    assert [round((day.until - day.since) / DAY_S, 6) for day in days][1:-1] == [1.0] * (len(days) - 2)
    assert (days[0].since, days[-1].until) == (0.5 * DAY_S, 3.5 * DAY_S)
    long = job("alice", core_s=4.0 * DAY_S, submitted_at=0.0, started_at=0.0, ended_at=4.0 * DAY_S, waited_held_s=3.0)
    found = summed_per([long], "user", USES, days)
    assert [one["jobs"] for one in found] == [1] + [0] * (len(days) - 1)
    assert [one["waited_held_s"] for one in found] == [3.0] + [0.0] * (len(days) - 1)
    assert [one["core_s"] for one in found] == [day.until - day.since for day in days]
    shown = [field.shown(found[0]) for field in columns("user", per=True)]
    assert shown[:3] == [days[0].name, "alice", "1"]
