"""Queue trees while rankd runs: who may submit, queues made on first use, removed ones, the life of applications."""

from __future__ import annotations

from contextlib import closing

import builder
import msgspec
import pytest
from builder import accepted, leaf, parent
from integration.intake_stage import Stage
from integration.stage import NOW, a_cluster, connected, ready, running, write_config

from rankd.bus.connection import Bus
from rankd.cli.look.queues import in_order
from rankd.cli.look.why import explained
from rankd.config.evaluation import Evaluator
from rankd.config.queues import read_queue_document
from rankd.core.change import job_action
from rankd.core.model.application import COMPLETING_S, STARTING_S
from rankd.core.model.queue import ChildTemplate, QueueProperties, make_path
from rankd.core.model.setting import PrioritySettings
from rankd.services.intake.service import IntakeOptions, run
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.store.look.queue_list import queues
from rankd.store.look.why import why
from rankd.store.record.catalog import forget_idle_queues, sync_catalog
from rankd.wire.message import Report

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: default, submitacl: "*"}
          - {name: staff, submitacl: "alice dev"}
          - {name: tenants, submitacl: "*", parent: true, childtemplate: {properties: {priority.offset: "5"}}}
          - {name: gone, submitacl: "*"}
          - {name: gangs, submitacl: "*", queues: [{name: a}]}
"""
GROUPS = "groups: [{name: dev, users: [bob]}]\n"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


class an_intake:  # noqa: N801 - reads as a context manager at its use
    """An intake with :data:`QUEUES`, or other ones; each start reads them anew."""

    def __init__(self, broker, tmp_path, queues=QUEUES):
        config = write_config(tmp_path / "config")
        (config / "queues.yaml").write_text(queues)
        with (config / "accounts.yaml").open("a") as accounts:
            accounts.write(GROUPS)
        self.options = IntakeOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=config)
        self.broker, self.path = broker, tmp_path / "rankd.db"

    async def __aenter__(self):
        self.parts = [Bus(self.broker.url, "probe"), connected(self.broker.url), running(run, self.options)]
        bus, client, _ = [await part.__aenter__() for part in self.parts]
        await ready(bus, "intake")
        stage = Stage(client.connection)
        stage.path = self.path
        return stage

    async def __aexit__(self, *error):
        for part in reversed(self.parts):
            await part.__aexit__(*error)


async def refused(stage, verb, body, user="alice"):
    reply = await stage.do(verb, body, user)
    return reply.status, reply.body.get("code")


def job(queue, **fields):
    return {"command": ["true"], "queue": queue, **fields}


# --- access ---------------------------------------------------------------------------------------------------


async def test_a_queues_list_decides_by_user_and_by_the_configured_groups(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        assert await stage.submit("alice", queue="root.staff") == 1
        assert await stage.submit("bob", queue="root.staff") == 2
        assert await refused(stage, "job.submit", job("root.staff"), "first%2Elast") == (403, "queue_access")
        assert await refused(stage, "job.submit", job("root.staff", groups=["dev"])) == (400, "unknown_field")
        reply = await stage.ask("rankd.v1.admin.root.job.submit", job("root.staff", user="first.last"))
        assert reply.body == {"id": 3}
        assert stage.rows("SELECT id, groups FROM jobs ORDER BY id") == [(1, None), (2, '["dev"]'), (3, None)]


async def test_a_job_moves_only_where_its_user_may_submit(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        own = await stage.submit("first%2Elast", queue="root.default", application="app")
        move = {"id": own, "queue": "root.staff"}
        assert await refused(stage, "job.update", move, "first%2Elast") == (403, "queue_access")
        assert (await stage.ask("rankd.v1.admin.root.job.update", move)).body["done"] == [own]
        assert stage.rows("SELECT queue, application FROM job") == [("root.staff", "app")]
        # it stays the user's to change, but for the way back into a closed queue
        assert (await stage.do("job.update", {"id": own, "urgency": 3}, "first%2Elast")).body["done"] == [own]
        for queue, code in (("root.gangs", "parent_queue"), ("root.none", "unknown_queue")):
            assert await refused(stage, "job.update", {"id": own, "queue": queue}, "first%2Elast") == (400, code)
        assert stage.rows("SELECT queue, urgency FROM job") == [("root.staff", 3)]


async def test_a_held_job_that_moves_stays_held_and_its_hold_is_lifted_where_it_is(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        own = await stage.submit("alice", queue="root.default", held=True)
        await stage.do("job.update", {"id": own, "queue": "root.tenants.fresh"})
        assert stage.rows("SELECT queue, held, reason, eligible_at FROM job") == [
            ("root.tenants.fresh", 1, "held", None)
        ]
        await stage.do("job.release", {"id": own})
        assert stage.rows("SELECT held FROM job") == [(0,)]


# --- first use ------------------------------------------------------------------------------------------------


async def test_a_queue_is_made_on_first_use_and_is_there_after_a_restart(broker, tmp_path):
    made = "SELECT path, offset, is_leaf FROM queue_priority WHERE dynamic ORDER BY path"
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit("alice", queue="tenants.New")
        await stage.submit("bob", queue="root.TENANTS.new")
        await stage.submit("bob", queue="root.tenants.deep.er")
        listed = [("root.tenants.New", 5, 1), ("root.tenants.deep", 0, 0), ("root.tenants.deep.er", 5, 1)]
        assert stage.rows(made) == listed
        batch = {"jobs": [job("tenants.b"), job("tenants.B"), job("tenants.b.c"), job("tenants.a b")]}
        reply = await stage.do("job.submit", batch)
        codes = [entry["code"] for entry in reply.body["rejected"]]
        assert codes == ["unknown_queue", "bad_queue_name"]
        assert stage.rows("SELECT count(*) FROM queues WHERE path LIKE 'root.tenants.b'") == [(1,)]
    async with an_intake(broker, tmp_path) as stage:
        assert stage.rows(made)[:1] == listed[:1]
        await stage.submit("alice", queue="tenants.new")
        assert stage.rows("SELECT count(*) FROM job WHERE queue = 'root.tenants.New'") == [(3,)]


async def test_a_queue_whose_job_is_not_stored_is_not_made(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        batch = {"jobs": [job("tenants.x"), job("tenants.x", nodes=0)], "atomic": True}
        assert (await stage.do("job.submit", batch)).body["accepted"] == []
        assert stage.rows("SELECT count(*) FROM queues WHERE dynamic") == [(0,)]
        assert await stage.submit("alice", queue="tenants.x")


def first_use(root):
    """A job of alice's that makes root.t.x, as admission would leave it."""
    made = make_path(root.queues[0], ["x"])
    return accepted(queue="root.t.x", made=made)


TEMPLATE = ChildTemplate(max={"vcore": 2000}, properties=QueueProperties(priority_offset=3))
ROOT = parent("root", parent("root.t", child_template=TEMPLATE), leaf("root.default"))


async def test_running_services_see_a_queue_that_was_just_made(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=ROOT)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await prioritizer.run_once(NOW)
        await cluster.add_node("n1")
        await scheduler.run_once(NOW)
        jobs = await cluster.submit(*[first_use(ROOT)] * 3, at=NOW + 1)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == jobs
        assert cluster.rows("SELECT path, pending_jobs, dynamic FROM queue_priority WHERE pending_jobs > 0") == [
            ("root", 3, 0), ("root.t", 3, 0), ("root.t.x", 3, 1),
        ]  # fmt: skip
        assert await scheduler.run_once(NOW + 1)
        # the template's maximum holds: two of four cores
        assert sorted(cluster.states().values()) == ["allocated", "allocated", "pending"]
        assert cluster.rows("SELECT applications FROM queue_priority WHERE path IN ('root', 'root.t.x')") == [
            (2,),
            (2,),
        ]


async def test_a_made_queue_goes_with_its_last_job_at_the_next_start_and_comes_back(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=ROOT)) as cluster:
        [own] = await cluster.submit(first_use(ROOT))
        for live in (1, 0):
            await cluster.database.write(lambda c: forget_idle_queues(c, NOW))
            await cluster.database.write(lambda c: sync_catalog(c, cluster.configuration, NOW))
            assert cluster.rows("SELECT count(*) FROM queue_priority WHERE path = 'root.t.x'") == [(live,)]
            await cluster.act(job_action.cancel, own)
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, cluster.configuration, NOW))
        await cluster.submit(first_use(ROOT))
        assert cluster.rows("SELECT path, configured, dynamic, count(*) FROM queues WHERE path = 'root.t.x'") == [
            ("root.t.x", 1, 1, 1)
        ]


async def test_a_reload_gives_made_queues_the_new_template_or_takes_them_away(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=ROOT)) as cluster:
        await cluster.submit(first_use(ROOT))
        for template, expected in (
            (ChildTemplate(max={"vcore": 9000}), [("root.t.x", '{"vcore":9.0}', 0)]),
            (None, []),
        ):
            root = parent("root", parent("root.t", child_template=template), leaf("root.default"))
            await cluster.database.write(lambda c, r=root: sync_catalog(c, builder.configuration(root=r), NOW))
            assert cluster.rows("SELECT path, max, offset FROM queue_priority WHERE dynamic") == expected


async def test_only_so_many_queues_are_made(broker, tmp_path, monkeypatch):
    monkeypatch.setattr("rankd.store.record.made_queue.MAX_MADE", 2)  # 10,000 would take minutes
    async with an_intake(broker, tmp_path) as stage:
        for name in ("a", "b", "A"):
            await stage.submit("alice", queue=f"tenants.{name}")
        assert await refused(stage, "job.submit", job("tenants.c")) == (409, "too_many_queues")
        assert (await stage.do("job.update", {"id": 1, "queue": "tenants.b"})).body["done"] == [1]
        assert await refused(stage, "job.update", {"id": 1, "queue": "tenants.c"}) == (400, "too_many_queues")


# --- removed queues ---------------------------------------------------------------------------------------------


async def test_a_job_in_a_removed_queue_says_so_and_can_be_moved_but_none_can_be_added(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        own = await stage.submit("alice", queue="root.gone")
    without = QUEUES.replace('          - {name: gone, submitacl: "*"}\n', "")
    async with an_intake(broker, tmp_path, without) as stage:
        [(reason, fact)] = stage.rows("SELECT reason, reason_fact FROM job")
        assert reason == "not eligible"
        assert "root.gone" in fact
        assert await refused(stage, "job.submit", job("gone")) == (400, "removed_queue")
        assert await refused(stage, "job.update", {"id": own, "urgency": 3}) == (400, "removed_queue")
        assert (await stage.do("job.update", {"id": own, "queue": "root.default"})).body["done"] == [own]
        assert stage.rows("SELECT queue, reason FROM job") == [("root.default", None)]


async def test_a_queue_that_is_written_in_other_letters_is_the_same(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit("alice", queue="root.gone")
    async with an_intake(broker, tmp_path, QUEUES.replace("name: gone", "name: GONE")) as stage:
        assert stage.rows("SELECT queue, reason FROM job") == [("root.GONE", None)]


# --- the life of applications -----------------------------------------------------------------------------------

STATEFUL = parent("root", leaf("root.s", properties=QueueProperties(sort_policy="stateaware")), leaf("root.default"))


def of(application, queue="root.s", **fields):
    return accepted(queue=queue, request={"application": application}, **fields)


def states(cluster):
    return dict(cluster.rows("SELECT name, state FROM applications"))


async def test_one_new_application_at_a_time_is_let_in_and_the_others_say_that_they_wait(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=STATEFUL)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        first, second, other = await cluster.submit(of("one"), of("one"), of("two"))
        await prioritizer.run_once(NOW)
        assert states(cluster) == {"one": "accepted", "two": "accepted"}
        assert cluster.ranking() == [first, second]
        waiting = "SELECT id, rank, reason FROM job_priority WHERE reason = 'application waiting'"
        assert cluster.rows(waiting) == [(other, None, "application waiting")]
        assert "root.s" in cluster.rows("SELECT reason_fact FROM job WHERE id = ?", other)[0][0]

        assert await scheduler.run_once(NOW)
        assert states(cluster) == {"one": "starting", "two": "accepted"}
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [second]
        await prioritizer.run_once(NOW + STARTING_S)
        assert states(cluster)["one"] == "running"
        assert cluster.ranking() == [second, other]
        assert cluster.rows(waiting) == []


async def test_an_application_completes_when_nothing_of_it_is_left(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1")
        good, bad = await cluster.submit(of("good", "root.default"), of("bad", "root.default"))
        await prioritizer.run_once(NOW)
        assert await scheduler.run_once(NOW)
        await cluster.end(good)
        allocation = cluster.rows("SELECT id FROM allocations WHERE job_id = ?", bad)[0][0]
        ended = Report(allocation=allocation, job=bad, kind="ended", at=NOW, started_at=NOW, exit_status=1)
        await cluster.report(("n1", ended))
        assert states(cluster) == {"good": "completing", "bad": "completing"}
        await prioritizer.run_once(NOW + COMPLETING_S)
        assert states(cluster) == {"good": "completed", "bad": "failed"}
        later = NOW + 2 * COMPLETING_S
        await cluster.submit(of("good", "root.default"), of("bad", "root.default"), at=later)
        assert states(cluster) == {"good": "accepted", "bad": "accepted"}
        assert cluster.rows("SELECT created_at, failed FROM applications") == [(later, 0)] * 2


async def test_an_application_that_begins_again_is_as_old_as_its_new_beginning(broker, tmp_path):
    """Else a name that was used once would be first for ever in a queue that goes by time."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        [own] = await cluster.submit(of("old", "root.default"))
        await prioritizer.run_once(NOW)
        await cluster.act(job_action.cancel, own)
        assert states(cluster) == {"old": "completing"}
        await prioritizer.run_once(NOW + COMPLETING_S)
        [young] = await cluster.submit(of("young", "root.default"), at=NOW + 100)
        [old] = await cluster.submit(of("old", "root.default"), at=NOW + 200)
        await prioritizer.run_once(NOW + 201)
        assert cluster.ranking() == [young, old]


# --- shown ------------------------------------------------------------------------------------------------------

FENCED = parent(
    "root",
    parent(
        "root.tenant",
        leaf("root.tenant.a", properties=QueueProperties(priority_offset=-5)),
        leaf("root.tenant.b", properties=QueueProperties(priority_offset=7)),
        properties=QueueProperties(priority_policy="fence", priority_offset=10),
    ),
    leaf("root.default"),
    leaf("root.other"),
)


def by_class(root):
    return builder.configuration(root=root, priority=PrioritySettings(policy="class"))


def look(cluster, query, *values):
    """What a looking command gets."""
    with closing(open_for_reading(cluster.database.path)) as connection:
        return query(connection, *values)


async def test_why_names_the_fence_and_the_offset_that_hold_a_job_back(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, by_class(FENCED)) as cluster:
        held, lifted, free = await cluster.submit(
            accepted(queue="root.tenant.a", class_value=1000),
            accepted(queue="root.tenant.b", class_value=1),
            accepted(class_value=500),
        )
        await cluster.prioritizer().run_once(NOW)
        assert cluster.ranking() == [free, held, lifted]
        answer = look(cluster, why, held)
        assert [(row["queue"], row["shows"], row["without"]) for row in answer["path"]] == [
            ("root.tenant.a", 995, 1000), ("root.tenant", 10, 995),
        ]  # fmt: skip
        text = explained(answer)
        offset = "In root.tenant, the offset -5 of root.tenant.a lowers its priority from 1000 to 995."
        assert offset in text
        assert "In root, the fence of root.tenant lowers its priority from 995 to 10." in text
        assert f"  in root, root.tenant shows 10 for job {held}, and root.default shows 500 for job {free}" in text
        offset = "In root.tenant, the offset +7 of root.tenant.b raises its priority from 1 to 8."
        assert offset in explained(look(cluster, why, lifted))
        assert look(cluster, why, free)["path"] == [
            {"queue": "root.default", "policy": "default", "offset": 0, "shows": 500, "without": 500}
        ]


async def test_why_says_what_is_the_matter_with_a_job_whose_queue_is_gone(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, by_class(FENCED)) as cluster:
        [own] = await cluster.submit(accepted(queue="root.other"))
        rest = by_class(parent("root", leaf("root.default")))
        await cluster.database.write(lambda c: sync_catalog(c, rest, NOW))
        await cluster.prioritizer(rest).run_once(NOW)
        text = explained(look(cluster, why, own))
        assert "no rank" in text[0]
        assert "root.other was removed" in text[1]  # the reason comes first


async def test_the_tree_stands_in_the_order_in_which_it_is_served_with_the_keys_that_decide(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, by_class(FENCED)) as cluster:
        await cluster.add_node("n1")
        await cluster.submit(
            accepted(queue="root.tenant.a", class_value=1),
            accepted(queue="root.tenant.b", class_value=-11),
            accepted(class_value=10),
            accepted(queue="root.other", class_value=10),
            accepted(queue="root.other", class_value=9),
        )
        await cluster.prioritizer().run_once(NOW)
        rows = in_order(look(cluster, queues))
        assert [(row["path"], row["priority"], row["place"], row["ahead_by"]) for row in rows] == [
            ("root", 10, None, None),
            ("root.other", 10, 1, "name"),
            ("root.tenant", 10, 2, "pending"),
            ("root.tenant.a", -4, 1, "name"),
            ("root.tenant.b", -4, 2, None),
            ("root.default", 10, 3, None),
        ]


# --- dumped -----------------------------------------------------------------------------------------------------

DUMPED = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "submitacl": " staff",
                    "queues": [
                        {"name": "s", "properties": {"application.sort.policy": "stateaware"}},
                        {
                            "name": "t",
                            "parent": True,
                            "childtemplate": {"properties": {"priority.offset": "50", "priority.policy": "fence"}},
                        },
                    ],
                }
            ],
        }
    ]
}


async def test_a_dump_makes_the_queues_that_were_made_and_lets_the_same_application_in(broker, tmp_path):
    [partition] = read_queue_document(DUMPED).partitions
    configured = by_class(partition.root)
    made = make_path(partition.root.queues[1], ["New"])
    async with a_cluster(tmp_path, broker.url, configured) as cluster:
        await cluster.add_node("n1")
        await cluster.submit(
            of("two", class_value=1),
            of("one", groups=("staff", "x")),
            accepted(queue="root.t.New", made=made, class_value=9),
        )
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await prioritizer.run_once(NOW)
        assert await scheduler.run_once(NOW)
        await cluster.submit(of("one"), of("two"), of("three"), at=NOW + 1)
        await prioritizer.run_once(NOW + 2)
        document = look(cluster, dump, configured, DUMPED).document
        result = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(document)))
        assert result["rejected"] == []
        assert result["ranking"] == cluster.ranking()
        assert {row["path"]: row["priority"] for row in result["queues"]} == dict(
            cluster.rows("SELECT path, priority FROM queue_priority")
        )
        waiting = cluster.rows("SELECT id FROM job_priority WHERE reason = 'application waiting' ORDER BY id")
        assert waiting
        assert [(job["id"],) for job in result["jobs"] if job["reason"] == "application waiting"] == waiting
        assert [job["groups"] for job in document["jobs"] if "groups" in job] == [["staff", "x"]]
