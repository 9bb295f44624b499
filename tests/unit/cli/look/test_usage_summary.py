from rankd.cli.look.usage_summary import columns, summed


def job(user, state="completed", core_s=0.0, gpu_s=0.0, **more):
    return {"user": user, "account": "physics", "state": state, "core_s": core_s, "gpu_s": gpu_s, **more}


def of(rows, key, **period):
    uses = {"core_s": "core_s", "gpu_s": "gpu_s", "memory_byte_s": "memory_byte_s"}
    return summed(rows, key, {name: lambda row, of=of: row.get(of, 0.0) for name, of in uses.items()}, **period)


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
