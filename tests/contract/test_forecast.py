"""Forecasts in the records: what they are made from, the present ranges, and the estimates that were shown."""

import pytest
from builder import NOW
from contract.store import ALICE, Store
from contract.world import allocate, end

from rankd.core.change.job_action import cancel
from rankd.core.forecast.outlook import StartRange
from rankd.core.model.node import NodeState
from rankd.store.feed.forecast import blocked_state, ended_runs, open_jobs, pairs_of
from rankd.store.look.late_start import late_start
from rankd.store.look.start_range import forecast_record, ranges_of, start_range
from rankd.store.look.why import why
from rankd.store.record.forecast import (
    MOST_OF_JOB,
    MOST_OPEN_OF_USER,
    ForecastRow,
    Shown,
    known_ranges,
    note_shown,
    prune_estimates,
    save_forecast,
    save_ranges,
    score_started,
)
from rankd.store.record.job_action import act
from rankd.store.record.job_name import targets_of
from rankd.store.record.node import set_state

HEAD = ForecastRow(NOW, 3, 2, 0, 0.5, 0.25)


def shown(job, made_at=NOW, early=NOW + 60, late=NOW + 120, user="alice"):
    return Shown(job, user, made_at, made_at + 1, early, late)


async def started(store: Store, job: int, at: float) -> None:
    await allocate(store, job, "n1", at=at)
    [taken] = await store.take("n1", at=at)
    await store.report("n1", taken.starts[0].allocation, job, "started", at=at)


async def test_the_jobs_of_open_allocations_have_their_accounts_and_users(store: Store):
    await store.add_nodes("n1")
    first, second = await store.submit("alice", "bob")
    await started(store, first, NOW)
    assert [tuple(one) for one in (await store.read(open_jobs)).values()] == [(first, ("physics", "alice"))]
    assert await store.read(pairs_of, [second, 99]) == {second: ("physics", "bob")}
    assert await store.read(pairs_of, []) == {}


async def test_jobs_that_ran_to_their_end_show_how_much_of_their_limit_they_used(store: Store):
    await store.add_nodes("n1")
    ran, unlimited, waiting = await store.submit("alice", "bob", "bob")
    await store.write(lambda c: c.exec_driver_sql("UPDATE jobs SET time_limit_s = 100 WHERE id <> 2"))
    await allocate(store, ran, "n1", at=NOW)
    await end(store, ran, "n1", at=NOW + 25)
    await allocate(store, unlimited, "n1", at=NOW)
    await end(store, unlimited, "n1", at=NOW + 25)
    found = await store.read(ended_runs, -1)
    assert [tuple(one) for one in found.runs] == [(("physics", "alice"), 5.0, 100.0)]
    assert (await store.read(ended_runs, found.revision)).runs == []
    assert waiting


async def test_blocked_jobs_come_with_what_they_wait_for(store: Store):
    first, _ = await store.submit("alice", "bob")
    [ok] = await store.submit("alice", request={"depends_on": [{"type": "afterok", "job": first}]})
    [single] = await store.submit("alice", request={"depends_on": [{"type": "singleton"}]})
    state = await store.read(blocked_state, [ok, single])
    assert sorted(one.job for one in state.blocked) == [ok, single]
    assert set(state.progress) == {first}
    assert state.before == {single: ok}
    assert (await store.read(blocked_state, [])).blocked == []


async def test_a_forecast_replaces_the_ranges_of_the_one_before(store: Store):
    first, second = await store.submit("alice", "bob")
    await store.write(save_ranges, [StartRange(first, 1.0, 2.0), StartRange(second, None, None, "held", "x")], [])
    await store.write(save_ranges, [StartRange(first, 3.0, None, "no time limit")], [second])
    await store.write(save_forecast, HEAD)
    await store.write(save_forecast, HEAD._replace(made_at=NOW + 30))
    assert await store.read(known_ranges) == {first}
    [row] = await store.rows("start_range")
    expected = {"job": first, "user": "alice", "early": 3.0, "late": None, "reason": "no time limit"}
    assert row == expected | {"fact": "", "made_at": NOW + 30}


async def test_when_answers_with_the_range_and_says_which_forecast(store: Store):
    await store.add_nodes("n1")
    first, second = await store.submit("alice", "bob")
    before = await store.look(start_range, first)
    assert (before["made_at"], before["early"], before["unknown"]) == (None, None, None)
    await store.write(save_ranges, [StartRange(first, NOW + 1, NOW + 2)], [])
    await store.write(save_forecast, HEAD)
    found = await store.look(start_range, first)
    assert (found["early"], found["late"], found["made_at"], found["user"]) == (NOW + 1, NOW + 2, NOW, "alice")
    assert (await store.look(start_range, second))["early"] is None
    assert await store.look(ranges_of, [first, second]) == {first: {"early": NOW + 1, "late": NOW + 2}}
    await started(store, first, NOW + 5)
    found = await store.look(start_range, first)
    assert (found["state"], found["started_at"], found["early"]) == ("running", NOW + 5, None)


async def test_an_estimate_is_recorded_once_and_scored_when_its_job_starts(store: Store):
    await store.add_nodes("n1")
    first, second = await store.submit("alice", "bob")
    assert await store.write(note_shown, [shown(first), shown(first), shown(second, user="bob")]) == 2
    assert await store.write(note_shown, [shown(first)]) == 0
    assert await store.write(note_shown, [shown(first, NOW + 30, late=None)]) == 1
    assert await store.write(score_started) == 0
    await started(store, first, NOW + 100)
    assert await store.write(score_started) == 2
    assert await store.write(score_started) == 0
    rows = await store.rows("start_estimate", job=first)
    assert sorted((row["started_at"], row["error_s"]) for row in rows) == [(NOW + 100, 10.0), (NOW + 100, 40.0)]
    [other] = await store.rows("start_estimate", job=second)
    assert (other["started_at"], other["error_s"]) == (None, None)


async def test_the_record_says_how_many_jobs_started_within_their_range(store: Store):
    assert (await store.look(forecast_record))["within"] is None
    await store.add_nodes("n1")
    [job] = await store.submit("alice")
    await store.write(note_shown, [shown(job), shown(job, NOW + 1, NOW + 1000, NOW + 2000)])
    await started(store, job, NOW + 100)
    await store.write(score_started)
    await store.write(save_forecast, HEAD)
    record = await store.look(forecast_record)
    assert (record["scored"], record["within"], record["near"]) == (2, 0.5, 0.5)
    assert record["forecast"]["generation"] == HEAD.generation


async def test_a_task_that_starts_scores_the_estimate_of_its_array(store: Store):
    await store.add_nodes("n1")
    [array] = await store.submit("alice", request={"array": "0-3"})
    await store.write(note_shown, [shown(array)])
    await allocate(store, array, "n1", at=NOW + 70)
    [taken] = await store.take("n1", at=NOW + 70)
    start = taken.starts[0]
    await store.report("n1", start.allocation, start.job, "started", at=NOW + 70)
    assert await store.write(score_started) == 1
    assert [row["started_at"] for row in await store.rows("start_estimate")] == [NOW + 70]


async def test_estimates_of_jobs_that_never_start_are_deleted(store: Store):
    [job] = await store.submit("alice")
    await store.write(note_shown, [shown(job)])
    targets = (await store.read(targets_of, [job])).found
    await store.write(act, targets, ALICE, NOW, cancel)
    assert await store.write(score_started) == 1
    assert await store.rows("start_estimate") == []


async def test_a_job_and_a_user_have_a_bounded_number_of_estimates(store: Store):
    [job] = await store.submit("alice")
    for place in range(MOST_OF_JOB + 5):
        await store.write(note_shown, [shown(job, NOW + place)])
    rows = await store.rows("start_estimate")
    assert len(rows) == MOST_OF_JOB
    assert max(row["made_at"] for row in rows) == NOW + MOST_OF_JOB + 4, "the newest one is kept"
    many = await store.submit(*["alice"] * (MOST_OPEN_OF_USER + 3))
    await store.write(note_shown, [shown(one) for one in many])
    assert len(await store.rows("start_estimate")) == MOST_OPEN_OF_USER


async def test_old_estimates_are_deleted(store: Store):
    first, second = await store.submit("alice", "bob")
    await store.write(note_shown, [shown(first), shown(second, NOW + 100)])
    assert await store.write(prune_estimates, NOW + 50) == 1
    assert [row["job"] for row in await store.rows("start_estimate")] == [second]


async def test_a_late_start_names_later_jobs_longer_runs_and_lost_nodes(store: Store):
    await store.add_nodes("n1", "n2")
    earlier, job = await store.submit("bob", "alice", at=NOW)
    await store.write(lambda c: c.exec_driver_sql("UPDATE jobs SET time_limit_s = 50 WHERE id = 1"))
    await started(store, earlier, NOW)
    assert await store.look(late_start, job) is None, "it has not started"
    await store.write(note_shown, [shown(job, NOW, NOW + 10, NOW + 50)])
    [later] = await store.submit("bob", at=NOW + 5)
    await allocate(store, later, "n2", at=NOW + 40)
    await store.write(set_state, "n2", NodeState.LOST, NOW + 130, "root")
    await started(store, job, NOW + 150)
    found = await store.look(late_start, job)
    assert (found["late"], found["started_at"], found["delay_s"]) == (NOW + 50, NOW + 150, 100.0)
    causes = {cause["kind"]: cause for cause in found["causes"]}
    assert causes["later jobs"]["named"] == [str(later)]
    assert causes["longer runs"]["named"] == [str(earlier)]
    assert causes["lost nodes"]["named"] == ["n2"]
    assert sum(cause["part_s"] for cause in found["causes"]) == pytest.approx(100.0)
    assert await store.look(late_start, earlier) is None, "nobody asked about it"
    assert (await store.look(why, job))["late"] == found


async def test_a_start_within_its_range_is_not_late(store: Store):
    await store.add_nodes("n1")
    [job] = await store.submit("alice")
    await store.write(note_shown, [shown(job, NOW, NOW + 10, NOW + 50)])
    await started(store, job, NOW + 50)
    assert await store.look(late_start, job) is None
