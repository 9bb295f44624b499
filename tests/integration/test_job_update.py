"""Changing jobs over the bus, with a real broker, a real database and a running intake."""

from __future__ import annotations

import asyncio
import json
import time

import builder
import msgspec
import pytest
from integration.intake_stage import an_intake
from integration.stage import NOW, a_cluster, connected

from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_update import Task
from rankd.core.model.priority_class import PriorityClass
from rankd.services.intake.job_selection import MOST_DONE
from rankd.services.intake.job_verbs import AT_ONCE
from rankd.store.record.catalog import admission_tables
from rankd.store.record.job_update import judge, judge_again, write_update
from rankd.wire.job_update import JobUpdate

ADMIN = "rankd.v1.admin.root.job.update"
MANY = 20 * AT_ONCE


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def refused(stage, body, user="alice"):
    reply = await stage.do("job.update", body, user)
    assert reply.status is not None, reply
    return reply.status, reply.body["code"]


async def update(stage, job, **given):
    reply = await stage.do("job.update", {"id": job, **given})
    assert (reply.body["done"], reply.body["failed"]) == ([job], []), reply


def details(stage, job):
    found = stage.rows("SELECT actor, detail FROM job_events WHERE job_id = ? AND event = 'update' ORDER BY id", job)
    return [(actor, json.loads(detail)) for actor, detail in found]


def updated(connection, jobs, task, catalog):
    return write_update(connection, judge(connection, jobs, task), task, catalog)


async def a_class(stage, name, value, **fields):
    reply = await stage.ask("rankd.v1.admin.root.class.create", {"name": name, "value": value, **fields})
    assert reply.status is None, reply


# --- what changes ------------------------------------------------------------------------------------------------


async def test_every_field_of_a_request_changes_and_its_event_says_from_what_to_what(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await a_class(stage, "urgent", 500, preemption_policy="Never")
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2, "gpu": 4}, "agent": "n1"})
        job = await stage.submit(name="old", resources={"vcore": 1, "gpu": 1})
        given = {
            "urgency": 5, "queue": "small", "qos": "high", "priority_class": "urgent", "priority": 500,
            "time_limit_s": 60, "nodes": 2, "min_nodes": 1, "resources": {"memory": "1Gi", "gpu": None},
            "constraints": "gpu=a100", "exclusive": True, "requeue": False, "name": "new", "comment": "why",
            "application": "app",
        }  # fmt: skip
        await update(stage, job, **given)
        shown = (await stage.do("job.show", {"id": job})).body
        expected = given | {"queue": "root.small", "resources": {"vcore": 1, "memory": 2**30}}
        assert {name: shown[name] for name in given} == expected
        assert (shown["class_value"], shown["preemption_policy"]) == (500, "Never")
        [(actor, detail)] = details(stage, job)
        assert actor == "alice"
        assert detail["urgency"] == {"before": 16, "after": 5}
        assert detail["queue"] == {"before": "root.default", "after": "root.small"}
        assert detail["resources"] == {"before": {"vcore": 1, "gpu": 1}, "after": {"vcore": 1, "memory": "1Gi"}}
        assert detail["class_value"] == {"before": 0, "after": 500}
        assert detail["application"] == {"before": None, "after": "app"}
        assert "account" not in detail


async def test_the_changed_request_is_the_one_that_is_started(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        await update(stage, job, time_limit_s=60, resources={"vcore": 2}, name="new")
        [(request,)] = stage.rows("SELECT request FROM jobs")
        request = json.loads(request)
        assert (request["time_limit_s"], request["resources"], request["name"]) == (60, {"vcore": 2}, "new")
        assert request["command"] == ["true"]


async def test_a_job_that_has_it_all_already_is_left_as_it_is(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(urgency=5)
        before = stage.rows("SELECT * FROM jobs")
        await update(stage, job, urgency=5, queue="DEFAULT", account="physics")
        assert stage.rows("SELECT * FROM jobs") == before
        assert details(stage, job) == []


async def test_a_class_is_resolved_again_only_when_it_is_named(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await a_class(stage, "batch", -10)
        job = await stage.submit(priority_class="batch", priority=-10)
        await stage.ask("rankd.v1.admin.root.class.delete", {"name": "batch"})
        await a_class(stage, "usual", 3, global_default=True)
        query = "SELECT class_value, priority_class FROM jobs"
        await update(stage, job, comment="x")
        assert stage.rows(query) == [(-10, "batch")]
        assert await refused(stage, {"id": job, "priority_class": "batch"}) == (404, "unknown_priority_class")
        assert await refused(stage, {"id": job, "priority": -10}) == (400, "class_not_named")
        mismatch = {"id": job, "priority_class": "usual", "priority": -10}
        assert await refused(stage, mismatch) == (400, "priority_mismatch")
        await update(stage, job, priority_class=None)
        assert stage.rows(query) == [(3, "usual")]
        system = {"id": job, "priority_class": "system-node-critical"}
        assert await refused(stage, system) == (403, "system_priority_class")
        assert (await stage.ask(ADMIN, system)).body["done"] == [job]
        assert stage.rows(query) == [(2_000_001_000, "system-node-critical")]


async def test_a_fixed_priority_is_for_administrators_and_says_by_whom(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        assert await refused(stage, {"id": job, "fixed_priority": 5}) == (403, "admins_only")
        await stage.ask(ADMIN, {"id": job, "fixed_priority": 5})
        assert stage.rows("SELECT fixed_priority, fixed_by FROM jobs") == [(5, "root")]
        await stage.ask(ADMIN, {"id": job, "fixed_priority": None})
        assert stage.rows("SELECT fixed_priority, fixed_by FROM jobs") == [(None, None)]
        pairs = [detail["fixed_priority"] for _, detail in details(stage, job)]
        assert pairs == [{"before": None, "after": 5}, {"before": 5, "after": None}]


# --- when it may start -------------------------------------------------------------------------------------------


async def test_new_conditions_block_a_job_and_taking_them_off_lets_it_go(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        first, job = await stage.submit(), await stage.submit()
        query = "SELECT blocked_by, eligible_at IS NOT NULL, begin_at FROM jobs WHERE id = 2"
        later = time.time() + 3600
        await update(stage, job, begin_at=later)
        assert stage.rows(query) == [("begin time", 0, later)]
        await update(stage, job, depends_on=[{"type": "afterok", "job": first}])
        assert stage.rows(query) == [("dependency", 0, later)]
        await update(stage, job, begin_at=None)
        assert stage.rows(query) == [("dependency", 0, None)]
        await update(stage, job, urgency=0)
        await update(stage, job, depends_on=[])
        assert stage.rows(query) == [(None, 0, None)]  # held
        await update(stage, job, urgency=16)
        assert stage.rows(query) == [(None, 1, None)]


async def test_a_dependency_that_is_met_already_does_not_block(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        ended, job = await stage.submit(), await stage.submit()
        await stage.do("job.cancel", {"id": ended})
        [(age,)] = stage.rows("SELECT eligible_at FROM jobs WHERE id = 2")
        await update(stage, job, depends_on=[{"type": "afterany", "job": ended}])
        assert stage.rows("SELECT blocked_by, eligible_at FROM jobs WHERE id = 2") == [(None, age)]


async def test_no_job_is_made_to_wait_for_itself(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        first = await stage.submit()
        second = await stage.submit(depends_on=[{"type": "afterok", "job": first}])
        third = await stage.submit(depends_on=[{"type": "afterok", "job": second}])
        for job in (first, second, third):
            body = {"id": job, "depends_on": [{"type": "afterok", "job": third}]}
            assert await refused(stage, body) == (400, "bad_dependency")
        await update(stage, third, depends_on=[{"type": "afterany", "job": first}])


async def test_the_prioritizer_heeds_the_conditions_that_it_is_given(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        tables = admission_tables(cluster.configuration, cluster.catalog)
        first, waiting = await cluster.submit(builder.accepted(), builder.accepted())
        prioritizer = cluster.prioritizer()
        await prioritizer.run_once(NOW)

        async def change(now, **given):
            task = Task(JobUpdate(id=waiting, **given), Submitter("alice", privileged=False), tables, now)
            reply = await cluster.database.write(lambda c: updated(c, [waiting], task, cluster.catalog))
            assert reply.failed == []

        await change(NOW + 1, begin_at=NOW + 10)
        await prioritizer.run_once(NOW + 2)
        assert cluster.ranking() == [first]
        await change(NOW + 3, begin_at=NOW + 20)  # later than the prioritizer knows
        assert await prioritizer._eligibility.release(NOW + 11) is True
        assert cluster.rows("SELECT blocked_by FROM jobs WHERE id = ?", waiting) == [("begin time",)]
        await prioritizer.run_once(NOW + 12)
        assert cluster.ranking() == [first]
        await prioritizer.run_once(NOW + 20)
        assert cluster.ranking() == [first, waiting]


async def test_a_job_that_changes_between_judgement_and_commit_is_judged_again(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        tables = admission_tables(cluster.configuration, cluster.catalog)
        jobs = await cluster.submit(*[builder.accepted() for _ in range(3)])
        task = Task(JobUpdate(urgency=3), Submitter("alice", privileged=False), tables, NOW + 2)
        judgement = await cluster.database.read(lambda c: judge(c, jobs, task))
        other = Task(JobUpdate(comment="meanwhile"), Submitter("alice", privileged=False), tables, NOW + 1)
        await cluster.database.write(lambda c: updated(c, [jobs[1]], other, cluster.catalog))
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE jobs SET state = 'running', revision = 99"
                                                                 " WHERE id = ?", (jobs[2],)))  # fmt: skip

        def write(connection):
            again = judge_again(connection, judgement, task, task, lambda found: found)
            return write_update(connection, again, task, cluster.catalog)

        reply = await cluster.database.write(write)
        assert sorted(reply.done) == jobs[:2]
        assert [(failed.id, failed.code) for failed in reply.failed] == [(jobs[2], "not_pending")]
        query = "SELECT urgency, comment, json_extract(request, '$.comment') FROM jobs ORDER BY id"
        assert cluster.rows(query) == [(3, None, None), (3, "meanwhile", "meanwhile"), (16, None, None)]


async def test_other_rules_that_come_into_force_between_judgement_and_commit_count(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        new = admission_tables(cluster.configuration, cluster.catalog)
        old = msgspec.structs.replace(new, classes=ClassTable.of([PriorityClass(name="batch", value=5)]))
        jobs = await cluster.submit(builder.accepted())
        task = Task(JobUpdate(priority_class="batch"), Submitter("alice", privileged=False), old, NOW + 1)
        judgement = await cluster.database.read(lambda c: judge(c, jobs, task))
        assert [verdict.job for verdict in judgement.verdicts] == jobs
        present = task._replace(tables=new)
        again = await cluster.database.read(lambda c: judge_again(c, judgement, task, present, lambda found: found))
        assert ([failed.code for failed in again.failed], again.verdicts) == (["unknown_priority_class"], [])


# --- which jobs, and who may -------------------------------------------------------------------------------------


async def test_one_job_that_fails_does_not_stop_the_others(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit(resources={"vcore": cores}) for cores in (1, 4, 2)]
        theirs = await stage.submit("bob")
        reply = await stage.do("job.update", {"ids": [*jobs, theirs, 77], "queue": "small"})
        assert reply.body["done"] == [jobs[0], jobs[2]]
        assert [(failed["id"], failed["code"]) for failed in reply.body["failed"]] == [
            (jobs[1], "queue_quota"), (theirs, "not_owner"), (77, "unknown_job"),
        ]  # fmt: skip
        assert stage.rows("SELECT id FROM job WHERE queue = 'root.small' ORDER BY id") == [(jobs[0],), (jobs[2],)]


async def test_a_filter_selects_by_all_that_it_names(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        high = [await stage.submit(qos="high", name="a"), await stage.submit(qos="high", name="b")]
        low = await stage.submit(name="a")
        assert (await stage.do("job.update", {"filter": {"qos": ["high"]}, "urgency": 9})).body["done"] == high
        body = {"filter": {"names": ["a"], "after": high[0]}, "urgency": 8}
        assert (await stage.do("job.update", body)).body["done"] == [low]
        body = {"filter": {"limit": 2}, "urgency": 7}
        assert (await stage.do("job.update", body)).body == {"done": high, "failed": [], "last": high[1]}
        assert [job["id"] for job in (await stage.do("job.list", {"qos": ["high"], "after": 1})).body["jobs"]] == [2]


async def test_a_filter_that_names_others_is_for_administrators(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit("bob")
        await stage.submit("alice")
        for verb in ("job.update", "job.hold", "job.release", "job.cancel"):
            for users in (["alice"], ["bob", "alice"]):
                body = {"filter": {"users": users}} | ({"urgency": 3} if verb == "job.update" else {})
                reply = await stage.do(verb, body, "bob")
                assert (reply.status, reply.body["code"], reply.body["field"]) == (403, "admins_only", "users")
        body = {"filter": {"users": ["alice", "bob"]}, "urgency": 3}
        assert (await stage.ask(ADMIN, body | {"urgency": 31})).body["done"] == [1, 2]


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit(), await stage.submit(resources={"vcore": 4})]
        before = stage.rows("SELECT * FROM jobs"), stage.rows("SELECT * FROM job_events")
        reply = await stage.do("job.update", {"ids": jobs, "queue": "small", "dry_run": True})
        assert (reply.body["done"], reply.body["failed"][0]["code"]) == ([jobs[0]], "queue_quota")
        for verb in ("job.hold", "job.cancel"):
            assert (await stage.do(verb, {"ids": jobs, "dry_run": True})).body["done"] == jobs
        reply = await stage.do("job.release", {"ids": jobs, "dry_run": True})
        assert [failed["code"] for failed in reply.body["failed"]] == ["not_held", "not_held"]
        assert (stage.rows("SELECT * FROM jobs"), stage.rows("SELECT * FROM job_events")) == before


# --- very many ---------------------------------------------------------------------------------------------------


async def test_others_write_while_very_many_jobs_are_changed(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for _ in range(2):
            await stage.do("job.submit", {"jobs": [{"command": ["true"]}] * MANY})
        between = []
        async with asyncio.TaskGroup() as group:
            body = {"filter": {"users": ["alice"]}, "urgency": 3}
            changing = group.create_task(stage.do("job.update", body))
            while not changing.done():
                between.append(await stage.submit("bob"))
        assert changing.result().body["done"] == list(range(1, 2 * MANY + 1))
        events = stage.rows("SELECT id FROM job_events WHERE event = 'update' ORDER BY id")
        first, last = events[0][0], events[-1][0]
        amid = stage.rows("SELECT count(*) FROM job_events WHERE event = 'submit' AND id BETWEEN ? AND ?", first, last)
        assert amid[0][0] >= 2
        assert between


async def test_what_a_filter_selected_is_asked_again_before_it_is_changed(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.submit", {"jobs": [{"command": ["true"], "name": "a"}] * MANY})
        renames, others = ({"filter": {"names": ["a"]}, **given} for given in ({"name": "b"}, {"urgency": 3}))
        replies = await asyncio.gather(stage.do("job.update", renames), stage.do("job.update", others))
        assert [reply.body["failed"] for reply in replies] == [[], []]
        assert stage.rows("SELECT DISTINCT name FROM jobs") == [("b",)]
        of = "SELECT job_id, id FROM job_events WHERE json_extract(detail, '$.{}') IS NOT NULL"
        renamed, changed = (dict(stage.rows(of.format(field))) for field in ("name", "urgency"))
        assert all(changed[job] < renamed[job] for job in changed)
        assert sorted(replies[1].body["done"]) == sorted(changed)


async def test_an_answer_about_more_jobs_than_fit_counts_them(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        ids = list(range(1, 20_001))
        reply = await stage.do("job.hold", {"ids": ids})
        assert reply.status is None
        assert reply.body["failed_count"] == len(ids) > len(reply.body["failed"]) > 1000
        assert MOST_DONE * len("1234567,") < 2**19


async def test_a_stop_in_the_middle_answers_and_what_was_done_stays(broker, tmp_path):
    async with connected(broker.url) as client, asyncio.TaskGroup() as group:
        async with an_intake(broker, tmp_path) as stage:
            await stage.do("job.submit", {"jobs": [{"command": ["true"]}] * 10_000})
            changing = group.create_task(client.do("job.update", {"filter": {}, "urgency": 3}))
            await stage.until(lambda: stage.rows("SELECT 1 FROM jobs WHERE urgency = 3 LIMIT 1"))
        reply = await changing
        changed = stage.rows("SELECT count(*) FROM jobs WHERE urgency = 3")[0][0]
        assert changed % AT_ONCE == 0
        assert reply.status == 503
        assert f"{changed} jobs were changed before" in reply.body["message"]
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.update", {"filter": {}, "urgency": 3})
        assert stage.rows("SELECT count(*) FROM job_events WHERE event = 'update'") == [(10_000,)]
