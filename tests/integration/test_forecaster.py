"""The forecaster on a real database and a real broker: it foresees what the scheduler then does."""

from __future__ import annotations

import builder
import msgspec
import pytest
from integration.intake_stage import an_intake
from integration.stage import NOW, ROOT, a_cluster, ready, running, true_in_time, write_config

from rankd.bus.connection import Bus
from rankd.core.change import job_action
from rankd.core.change.job_update import Task
from rankd.core.model.array import parse_array
from rankd.core.model.service_setting import ForecastSettings
from rankd.core.model.setting import Settings
from rankd.services.forecaster.forecaster import ROLE, Forecaster
from rankd.services.forecaster.service import ForecasterOptions, run
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.record.catalog import admission_tables
from rankd.store.record.job_update import judge, write_update
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import Report

ROLES = ("prioritizer", "scheduler", ROLE)
WHOLE = {"vcore": 4000}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def configured(**forecast):
    given = builder.configuration()
    settings = msgspec.structs.replace(given.settings, forecast=ForecastSettings(most_cpu=1.0, **forecast))
    return msgspec.structs.replace(given, settings=settings)


def forecaster_of(cluster, at):
    source = SchedulingSource(cluster.configuration, cluster.catalog)
    return Forecaster(cluster.configuration, source, cluster.database, lambda: at[0])


def job(limit_s=100.0, user="alice", array=None, **fields):
    tasks = None if array is None else parse_array(array)
    return builder.accepted(user, resources=WHOLE, array=tasks, request={"time_limit_s": limit_s, **fields})


def ranges(cluster):
    return {
        id_: (early, late, reason)
        for id_, early, late, reason in cluster.rows("SELECT job_id, early, late, reason FROM start_ranges")
    }


async def schedule(prioritizer, scheduler, at: float = NOW) -> None:
    await prioritizer.run_once(at)
    while await scheduler.run_once(at):
        pass


async def test_with_all_limits_used_up_each_job_starts_when_it_was_foreseen(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configured(), ROLES) as cluster:
        prioritizer, scheduler, at = cluster.prioritizer(), cluster.scheduler(), [NOW]
        forecaster = forecaster_of(cluster, at)
        await cluster.add_node("n1")
        await cluster.submit(job(100), job(50), job(70))
        [held] = await cluster.submit(builder.accepted(held=True))
        [chained] = await cluster.submit(job(10, depends_on=[{"type": "afterok", "job": 3}]))
        await schedule(prioritizer, scheduler)
        await prioritizer.run_once(NOW)
        assert cluster.states()[1] == "allocated"
        assert await forecaster.run_once() == 4
        found = ranges(cluster)
        assert found[2] == (NOW + 100, NOW + 100, None)
        assert found[3] == (NOW + 150, NOW + 150, None)
        assert found[chained] == (NOW + 220, NOW + 220, None)
        assert found[held] == (None, None, "held")
        for ended, started, when in ((1, 2, NOW + 100), (2, 3, NOW + 150)):
            await cluster.end(ended, at=when)
            await schedule(prioritizer, scheduler, when)
            assert cluster.states()[started] == "allocated"
        at[0] = NOW + 150
        assert await forecaster.run_once() == 2
        assert ranges(cluster) == {chained: (NOW + 220, NOW + 220, None), held: (None, None, "held")}


async def test_jobs_behind_the_first_ones_are_beyond_the_horizon(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configured(horizon_jobs=2), ROLES) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1")
        await cluster.submit(*[job() for _ in range(6)])
        await schedule(prioritizer, scheduler)
        await prioritizer.run_once(NOW)
        await forecaster_of(cluster, [NOW]).run_once()
        assert set(ranges(cluster)) == set(cluster.ranking()[:2])
        assert cluster.rows("SELECT jobs, beyond FROM forecasts") == [(2, 3)]


async def test_a_quota_an_array_and_a_job_that_fits_no_node_are_foreseen(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configured(), ROLES) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1")
        await cluster.submit(job(100))
        [array] = await cluster.submit(job(30, array="0-2%1"))
        [large] = await cluster.submit(builder.accepted(resources={"vcore": 9000}, request={"time_limit_s": 10.0}))
        [behind] = await cluster.submit(job(10, "bob", depends_on=[{"type": "afterany", "job": array}]))
        await schedule(prioritizer, scheduler)
        await prioritizer.run_once(NOW)
        await forecaster_of(cluster, [NOW]).run_once()
        found = ranges(cluster)
        assert found[array] == (NOW + 100, NOW + 100, None)
        assert found[behind] == (NOW + 190, NOW + 190, None), "all three tasks are before it"
        assert found[large][2] == "no node fits"


async def test_a_released_job_and_a_cancelled_one_change_the_next_forecast(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, configured(), ROLES) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        forecaster = forecaster_of(cluster, [NOW])
        await cluster.add_node("n1")
        await cluster.submit(job(100), job(50), job(60))
        await schedule(prioritizer, scheduler)
        await prioritizer.run_once(NOW)
        await forecaster.run_once()
        assert ranges(cluster)[3][0] == NOW + 150
        await cluster.act(job_action.cancel, 2)
        await prioritizer.run_once(NOW)
        await forecaster.run_once()
        assert ranges(cluster) == {3: (NOW + 100, NOW + 100, None)}


@pytest.mark.parametrize("limit_s", [40.0, 500.0])
async def test_a_running_jobs_new_limit_counts_in_the_next_forecast(broker, tmp_path, limit_s):
    async with a_cluster(tmp_path, broker.url, configured(), ROLES) as cluster:
        prioritizer, scheduler, at = cluster.prioritizer(), cluster.scheduler(), [NOW]
        forecaster = forecaster_of(cluster, at)
        await cluster.add_node("n1")
        await cluster.submit(job(100), job(50), job(60))
        await schedule(prioritizer, scheduler)
        await cluster.report(("n1", Report(allocation=1, job=1, kind="started", at=NOW)))
        await prioritizer.run_once(NOW)
        await forecaster.run_once()
        assert [early - NOW for early, *_ in ranges(cluster).values()] == [100, 150]
        tables = admission_tables(cluster.configuration, cluster.catalog)
        task = Task(JobUpdate(time_limit_s=limit_s), ROOT, tables, NOW + 10)
        await cluster.database.write(lambda c: write_update(c, judge(c, [1], task), task, cluster.catalog))
        at[0] = NOW + 10
        await forecaster.run_once()
        assert ranges(cluster) == {
            2: (NOW + limit_s, NOW + limit_s, None),
            3: (NOW + limit_s + 50, NOW + limit_s + 50, None),
        }


async def test_when_answers_from_the_last_forecast_and_records_what_it_showed(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        first = await stage.submit("alice", begin_at=4_000_000_000.0, time_limit_s=60)
        nothing = (await stage.do("job.when", {"id": first})).body
        assert (nothing["made_at"], nothing["early"], nothing["state"]) == (None, None, "pending")
        assert (await stage.do("job.when", {"id": 99})).body["code"] == "unknown_job"
        assert (await stage.do("job.when", {"id": first, "x": 1})).body["code"] == "unknown_field"
        options = ForecasterOptions(
            nats=broker.url, db=str(tmp_path / "rankd.db"), config=write_config(tmp_path / "config")
        )
        async with Bus(broker.url, "probe") as bus, running(run, options):
            await ready(bus, ROLE)
            await true_in_time(lambda: stage.rows("SELECT 1 FROM forecasts"))  # written once all ranges are
            found = (await stage.do("job.when", {"id": first})).body
            assert found["unknown"] == "beyond the horizon", "it begins in a hundred years"
            assert found["assumes"] == "later arrivals are not assumed"
            assert found["age_s"] >= 0
        assert stage.rows("SELECT count(*) FROM start_estimates") == [(0,)], "no range was shown"


async def test_a_range_that_was_shown_is_recorded_once(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        first = await stage.submit("alice", time_limit_s=60)
        from integration.intake_stage import write

        write(tmp_path, f"INSERT INTO start_ranges VALUES ({first}, 10.0, 20.0, NULL, '')")
        write(tmp_path, "INSERT INTO forecasts VALUES (1, 5.0, 1, 1, 0, 0.1, 0.1)")
        for _ in range(3):
            found = (await stage.do("job.when", {"id": first})).body
            assert (found["early"], found["late"], found["made_at"]) == (10.0, 20.0, 5.0)
        await true_in_time(lambda: stage.rows("SELECT 1 FROM start_estimate"))
        assert stage.rows('SELECT job, "user", made_at, early, late FROM start_estimate') == [
            (first, "alice", 5.0, 10.0, 20.0)
        ]
        diag = (await stage.do("diag.show", {})).body
        assert diag["estimates"]["scored"] == 0
        assert diag["forecaster"] is None


def test_the_settings_have_the_documented_defaults():
    own = Settings().forecast
    assert (own.enabled, own.horizon_jobs, own.every_s, own.most_cpu) == (True, 10_000, 30.0, 0.25)
