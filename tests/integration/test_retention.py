"""Old jobs and events go; usage, fair share, ids and keys stay as they were."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import builder
import pytest
from integration.stage import NOW, PATIENCE_S, a_cluster, rows, running, write_config

from rankd.core.change import job_action
from rankd.core.model.service_setting import RetentionSettings
from rankd.services.intake.relay import Relay
from rankd.services.intake.retention_sweep import sweep
from rankd.services.intake.service import IntakeOptions, run
from rankd.store.record import history
from rankd.wire.message import Report

LONG = NOW + 10 * 86_400
ALL = RetentionSettings(jobs_s=3_600.0, events_s=3_600.0)


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def a_past(cluster) -> None:
    """Jobs 1 to 3 have run, 4 was cancelled, 5 waits for 1, 6 waits."""
    await cluster.add_node("n1", vcore=8)
    await cluster.submit(builder.accepted(), builder.accepted("bob"), builder.accepted(request={"key": "k"}))
    ranks, starts = cluster.prioritizer(), cluster.scheduler()
    await ranks.run_once(NOW)
    await starts.run_once(NOW)
    for allocation, job in cluster.rows("SELECT id, job_id FROM allocations"):
        await cluster.report(("n1", Report(allocation=allocation, job=job, kind="started", at=NOW)), at=NOW)
    await cluster.end(1, 2, 3, at=NOW + 100)
    await cluster.submit(*[builder.accepted()] * 3, at=NOW + 101)
    await cluster.act(job_action.cancel, 4, at=NOW + 102)
    await cluster.database.write(
        lambda c: c.exec_driver_sql("""UPDATE jobs SET depends_on = '[{"type":"afterok","job":1}]' WHERE id = 5""")
    )
    relay = Relay(cluster.database, cluster.bus, "intake", time.time)
    while await relay.run_once():
        pass
    await ranks.run_once(NOW + 200)


def a_stage(broker, tmp_path):
    return a_cluster(tmp_path, broker.url, roles=("intake", "prioritizer", "scheduler"))


async def shares(cluster) -> list[tuple]:
    await cluster.prioritizer().run_once(LONG)
    return cluster.rows(
        'SELECT account, "user", usage, usage_effective, level_fairshare, fairshare FROM association_share'
    )


async def test_fair_share_is_the_same_to_the_last_digit_and_what_jobs_used_is_summed(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        before = await shares(cluster)
        assert any(row[2] for row in before), "something was used"
        gone = await sweep(cluster.database, ALL, LONG)
        assert gone["jobs"] == 3
        assert cluster.rows("SELECT id FROM jobs ORDER BY id") == [(1,), (5,), (6,)], "5 depends on 1"
        assert await shares(cluster) == before
        days = cluster.rows('SELECT "user", jobs, completed, core_s FROM usage_day ORDER BY "user"')
        assert days == [("alice", 2, 1, 100.0), ("bob", 1, 1, 100.0)]
        for table, column in (("job_events", "job_id"), ("allocations", "job_id")):
            assert cluster.rows(f"SELECT count(*) FROM {table} WHERE {column} IN (2, 3, 4)") == [(0,)]


async def test_ids_are_never_given_again_and_keys_still_answer(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        await cluster.act(job_action.cancel, 5, 6, at=NOW + 103)
        await Relay(cluster.database, cluster.bus, "intake", time.time).run_once()
        await cluster.prioritizer().run_once(LONG)
        await sweep(cluster.database, ALL, LONG)
        assert cluster.rows("SELECT count(*) FROM jobs") == [(0,)]
        assert await cluster.submit(builder.accepted(), builder.accepted(request={"key": "k"})) == [7, 3]


async def test_what_is_open_uncharged_unpublished_or_recent_stays(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        assert (await sweep(cluster.database, ALL, NOW + 3_000))["jobs"] == 0
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE allocations SET charged = 0 WHERE job_id = 2"))
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE jobs SET revision = 1000 WHERE id = 3"))
        await sweep(cluster.database, ALL, LONG)
        assert cluster.rows("SELECT id FROM jobs ORDER BY id") == [(1,), (2,), (3,), (5,), (6,)]


def killed() -> None:
    raise RuntimeError("killed")


async def test_a_sweep_that_is_cut_off_goes_on_later_and_counts_nothing_twice(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(history, "PART", 1)
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        with pytest.raises(RuntimeError, match="killed"):
            await sweep(cluster.database, ALL, LONG, beat=killed)
        await sweep(cluster.database, ALL, LONG)
        assert cluster.rows("SELECT sum(jobs) FROM usage_day") == [(3,)]


async def test_a_job_that_another_begins_to_depend_on_during_the_sweep_stays(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        kept = await cluster.database.read(history.named)
        await cluster.act(job_action.hold, 6, at=LONG)
        on_two = """UPDATE jobs SET depends_on = '[{"type":"afterok","job":2}]' WHERE id = 6"""
        await cluster.database.write(lambda c: c.exec_driver_sql(on_two))
        await Relay(cluster.database, cluster.bus, "intake", time.time).run_once()
        await cluster.database.write(lambda c: history.prune_jobs(c, 0, LONG, kept))
        assert cluster.rows("SELECT id FROM jobs ORDER BY id") == [(1,), (2,), (5,), (6,)]


async def test_events_of_ended_jobs_and_of_nodes_go_before_their_jobs(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        gone = await sweep(cluster.database, RetentionSettings(jobs_s=10**9, events_s=3_600.0), LONG)
        assert (gone["jobs"], gone["node_events"]) == (0, 1)
        assert {job for (job,) in cluster.rows("SELECT job_id FROM job_events")} == {5, 6}


async def test_the_intake_deletes_old_records_by_itself(broker, tmp_path):
    """Once it is there; what it keeps is what still waits, and what that depends on. The default time is a year."""
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
    path = tmp_path / "rankd.db"
    options = IntakeOptions(nats=broker.url, db=str(path), config=write_config(tmp_path / "config"))
    async with running(run, options), asyncio.timeout(PATIENCE_S):
        while len(rows(path, "SELECT id FROM jobs")) > 3:
            await asyncio.sleep(0.01)
        while rows(path, "SELECT 1 FROM job_events WHERE job_id NOT IN (5, 6)"):
            await asyncio.sleep(0.01)
    assert rows(path, "SELECT id FROM jobs ORDER BY id") == [(1,), (5,), (6,)]
    assert rows(path, 'SELECT "user", jobs FROM usage_day ORDER BY "user"') == [("alice", 2), ("bob", 1)]


async def prune(cluster, before: str) -> subprocess.CompletedProcess[str]:
    """As an administrator calls it, beside services."""
    command = [sys.executable, "-m", "rankd", "db", "prune", "--before", before, "--db", str(cluster.database.path)]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def test_db_prune_deletes_what_ended_before_its_time_and_nothing_else(broker, tmp_path):
    """Jobs 2 and 3 ended before, 4 a second after; 5 and 6 wait, 5 for job 1."""
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        done = await prune(cluster, f"@{NOW + 101}")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("jobs         2 deleted\n")
        assert cluster.rows("SELECT id FROM jobs ORDER BY id") == [(1,), (4,), (5,), (6,)]
        assert cluster.rows("SELECT DISTINCT job_id FROM job_events ORDER BY 1") == [(4,), (5,), (6,)]
        assert cluster.rows("SELECT job_id FROM allocations") == [(1,)]
        assert cluster.rows("SELECT sum(jobs) FROM usage_day") == [(2,)]


async def test_db_prune_leaves_what_is_less_than_an_hour_old(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await a_past(cluster)
        refused = await prune(cluster, "now-10minutes")
        assert refused.returncode == 2
        assert "--before now-10minutes: give a time at least an hour ago" in refused.stderr
        assert cluster.rows("SELECT count(*) FROM jobs") == [(6,)]
