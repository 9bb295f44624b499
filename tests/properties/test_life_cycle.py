"""The life of jobs as the store keeps it: any order of requests, decisions and reports, on a real SQLite file."""

import asyncio
import json
import shutil
import tempfile
from collections import Counter

import msgspec
import pytest
from builder import NOW, accepted, add_nodes, configuration, leaf, new_database, parent
from effort import effort
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_update import Task
from rankd.core.change.node_action import drain, resume
from rankd.core.model.application import COMPLETING_S, STARTING_S
from rankd.core.model.job import ACTIVE_STATES, FINAL_STATES, Dependency, Event, State, next_state
from rankd.core.model.node import NodeState
from rankd.core.model.queue import ChildTemplate
from rankd.core.model.wait_part import COLUMNS
from rankd.services.intake.node_watch import lose_nodes
from rankd.services.prioritizer.eligibility import _make_eligible
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.application import follow, overdue_applications
from rankd.store.record.catalog import admission_tables, sync_catalog
from rankd.store.record.delivery import Ask, give, take_back, untaken
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act, select_ids
from rankd.store.record.job_update import judge, write_update
from rankd.store.record.node import register_node, set_state, strays
from rankd.store.record.node_action import NodeWish
from rankd.store.record.node_action import act as act_on_nodes
from rankd.store.record.report import take_reports
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import JobFilter, NodeRegistration, Report

MAX_REQUEUES = 2
NODES = ("n0", "n1", "n2")
ASKERS = st.sampled_from([Submitter("alice", False), Submitter("bob", False), Submitter("root", True)])
ENDS = st.sampled_from(
    [
        {"exit_status": 0},
        {"exit_status": 1},
        {"signal": 9},
        {"signal": 15, "cause": "timeout"},
        {"signal": 15, "cause": "cancel"},
        {"signal": 15, "cause": "gang"},
        *[{"cause": "node_lost"}] * 3,
        {"cause": "lost"},
        {"signal": 9, "cause": "out_of_memory"},
        {"cause": "agent_stopped"},
        {"exit_status": 127, "cause": "start_failed"},
    ]
)
PLACES = st.integers(0, 30)
QUEUES = ["root.default", "root.t.x", "root.T.X", "root.t.y"]
"""The last three are made on first use."""
ROOT = parent("root", leaf("root.default"), parent("root.t", child_template=ChildTemplate(maxapplications=3)))


CONDITIONS = st.sampled_from(
    [
        *[{}] * 4,
        {"begin_at": NOW + 1e9},
        {"begin_at": None},
        {"depends_on": [Dependency(type="afterany", job=1)]},
        {"depends_on": [Dependency(type="afterok", job=2), Dependency(type="after", job=3)]},
        {"depends_on": [], "begin_at": None},
    ]
)


class Life(RuleBasedStateMachine):
    """What may happen, and what holds whatever happened."""

    @initialize()
    def set_up(self):
        self.directory = tempfile.mkdtemp(prefix="rankd-life-")
        self.runner = asyncio.Runner()
        self.database = open_database(new_database(self.directory), durable=False)
        self.now = NOW
        configured = configuration(root=ROOT)
        self.catalog = self.write(lambda c: sync_catalog(c, configured, NOW))
        self.write(lambda c: add_nodes(c, *NODES))
        self.tables = admission_tables(configured, self.catalog)
        self.reader = sqlite3.connect(self.database.path)
        self.reader.row_factory = sqlite3.Row
        self.sent = []
        for nodes, user in ((1, "alice"), (2, "bob"), (1, "bob")):
            self.submit(user, nodes, urgency=16, held=False, requeue=True, key=None, blocked={}, application="one")

    def teardown(self):
        if hasattr(self, "database"):
            self.reader.close()
            self.runner.run(self.database.__aexit__(None, None, None))
            self.runner.close()
            shutil.rmtree(self.directory)

    def write(self, work):
        self.now += 1
        return self.runner.run(self.database.write(work))

    def rows(self, query, *parameters):
        return self.reader.execute(query, parameters).fetchall()

    def a_job(self, place):
        jobs = self.rows("SELECT * FROM jobs ORDER BY id")
        return jobs[place % len(jobs)]

    def a_part(self, place):
        """An allocation's part on a node, of any allocation ever."""
        parts = self.rows(
            "SELECT p.allocation_id, p.node, l.job_id FROM allocation_nodes p"
            " JOIN allocations l ON l.id = p.allocation_id ORDER BY 1 DESC, 2"
        )
        return parts[place % len(parts)]

    def open_parts(self):
        return self.rows(
            "SELECT p.allocation_id, p.node, l.job_id FROM allocation_nodes p JOIN allocations l"
            " ON l.id = p.allocation_id WHERE p.ended_at IS NULL"
        )

    def placement(self, job, revision):
        nodes = NODES[: job["nodes"]]
        return NewAllocation(
            job=job["id"],
            revision=revision,
            nodes=nodes,
            resources={"vcore": 1000},
            charge_rate=1.0,
            generation=1,
            rank=1,
        )

    def have_allocations(self):
        return bool(self.rows("SELECT 1 FROM allocations LIMIT 1"))

    # --- what users do --------------------------------------------------------------------------------------

    @rule(
        user=st.sampled_from(["alice", "bob"]), nodes=st.integers(1, 3),
        urgency=st.sampled_from([16, 16, 16, 0, 31]),
        held=st.sampled_from([False, False, True]), requeue=st.booleans(),
        key=st.sampled_from([None, None, "k1", "k2"]),
        blocked=st.sampled_from([{}, {}, {"begin_at": NOW + 1e9}, {"depends_on": [{"type": "afterany", "job": 1}]}]),
        application=st.sampled_from([None, "one", "one", "two"]),
    )  # fmt: skip
    def submit(self, user, nodes, urgency, held, requeue, key, blocked, application):
        job = accepted(
            user, nodes=nodes, urgency=urgency, held=held or urgency == 0,
            request={"requeue": requeue, "key": key, "urgency": urgency, "nodes": nodes, "application": application,
                     **blocked},
        )  # fmt: skip
        known = self.rows('SELECT id FROM jobs WHERE "user" = ? AND "key" = ?', user, key)
        count = len(self.rows("SELECT id FROM jobs"))
        (id_,) = self.write(lambda c: insert_jobs(c, [NewJob(accepted=job, actor=user, at=self.now)], self.catalog))
        assert id_ == (known[0]["id"] if known else count + 1)

    @rule(
        places=st.lists(PLACES, min_size=1, max_size=3), asker=ASKERS, decide=st.sampled_from([hold, release, cancel])
    )
    def ask(self, places, asker, decide):
        ids = [self.a_job(place)["id"] for place in places]
        before = {row["id"]: dict(row) for row in self.rows("SELECT * FROM jobs")}
        reply = self.write(lambda c: act(c, ids, asker, self.now, decide))
        after = {row["id"]: dict(row) for row in self.rows("SELECT * FROM jobs")}
        assert sorted([*reply.done, *(failed.id for failed in reply.failed)]) == sorted(set(ids))
        for job in set(before) - set(reply.done):
            assert after[job] == before[job]
        for job in reply.done:
            assert asker.privileged or before[job]["user"] == asker.user
            self.check_asked(decide, before[job], after[job], asker)

    def check_asked(self, decide, before, after, asker):
        if decide is hold:
            assert after["held"]
        elif decide is release:
            assert not after["held"]
            assert after["urgency"] == (before["urgency"] or 16)
        elif before["state"] == State.PENDING:
            assert after["state"] == State.CANCELLED
        else:
            assert after["state"] == before["state"]
            assert after["cancelled_by"] == asker.user

    @rule(
        place=PLACES, asker=ASKERS, urgency=st.sampled_from([None, 0, 5, 16, 31]),
        comment=st.sampled_from([None, "x"]), queue=st.sampled_from([None, None, *QUEUES]), conditions=CONDITIONS,
        application=st.sampled_from([None, None, "one", "two"]),
    )  # fmt: skip
    def update(self, place, asker, urgency, comment, queue, conditions, application):
        fields = {"urgency": urgency, "comment": comment or "y", "queue": queue, "application": application}
        given = {name: value for name, value in fields.items() if value is not None} | conditions
        update = JobUpdate(**given)
        job = self.a_job(place)
        task = Task(update, asker, self.tables, self.now)
        reply = self.write(lambda c: write_update(c, judge(c, [job["id"]], task), task, self.catalog))
        if reply.done:
            wanted = job["urgency"] if urgency is None else urgency
            after = dict(self.rows("SELECT * FROM jobs WHERE id = ?", job["id"])[0])
            assert after["urgency"] == wanted
            self.check_updated(dict(job), after, given)

    def check_updated(self, before, after, given):
        """The record says what was asked for, the event what differs; the request is what will be started."""
        request = json.loads(after["request"])
        assert {name: request[name] for name in ("comment", "begin_at")} == {
            name: after[name] for name in ("comment", "begin_at")
        }
        assert all(after[name] == given[name] for name in ("comment", "begin_at") if name in given)
        assert json.loads(after["depends_on"] or "[]") == request["depends_on"]
        assert all(dependency["job"] != after["id"] for dependency in request["depends_on"])
        same = after["revision"] == before["revision"]
        assert same == (before == after)
        if not same:
            detail = self.rows("SELECT detail FROM job_events WHERE id = ?", after["revision"])[0][0]
            pairs = json.loads(detail)
            for name in ("urgency", "comment", "begin_at", "held", "blocked_by", "eligible_at"):
                expected = {"before": before[name], "after": after[name]}
                assert pairs.get(name) == (expected if before[name] != after[name] else None)

    # --- what the services do -------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([COMPLETING_S, STARTING_S]))
    def applications_age(self, seconds):
        self.now += seconds
        overdue = self.write(lambda c: overdue_applications(c, self.now))
        self.write(lambda c: follow(c, {id_: [event] for id_, event in overdue.items()}, self.now))
        assert not self.write(lambda c: overdue_applications(c, self.now - 2))

    @rule()
    def let_blocked_jobs_go(self):
        blocked = [row["id"] for row in self.rows("SELECT id FROM jobs WHERE blocked_by IS NOT NULL")]
        seen = self.rows("SELECT coalesce(max(id), 0) FROM job_events")[0][0]
        self.write(lambda c: _make_eligible(c, blocked, "prioritizer", self.now, seen))

    @rule(places=st.lists(PLACES, min_size=1, max_size=4), fresh=st.sampled_from([True, True, False]))
    def allocate(self, places, fresh):
        jobs = [self.a_job(place) for place in places]
        new = [self.placement(job, job["revision"] - (0 if fresh else 1)) for job in jobs]
        up = {row["name"] for row in self.rows("SELECT name FROM nodes WHERE state = 'up'")}
        may = {
            job["id"]
            for job, entry in zip(jobs, new, strict=True)
            if job["state"] == State.PENDING and entry.revision == job["revision"] and up.issuperset(entry.nodes)
        }
        assert self.write(lambda c: commit_allocations(c, new, 1, self.now)) == len(may)

    @rule(node=st.sampled_from(NODES), state=st.sampled_from([NodeState.DOWN, NodeState.LOST]))
    def nodes_go(self, node, state):
        self.write(lambda c: set_state(c, node, state, self.now, "intake"))

    @rule(nodes=st.lists(st.sampled_from(NODES), min_size=1), decide=st.sampled_from([drain, resume, resume]))
    def nodes_are_drained_and_resumed(self, nodes, decide):
        before = {row["name"]: row["drained_by"] for row in self.rows("SELECT * FROM nodes")}
        wish = NodeWish(nodes=nodes, actor="root", reason="new disks", at=self.now)
        reply = self.write(lambda c: act_on_nodes(c, wish, decide))
        done = {node for node in nodes if decide is drain or before[node]}
        assert set(reply.done) == done
        assert {failed.code for failed in reply.failed} <= {"not_draining"}
        for row in self.rows("SELECT * FROM nodes"):
            if row["name"] in done:
                assert bool(row["drained_by"]) is (decide is drain)

    @rule(node=st.sampled_from(NODES), places=st.lists(PLACES, max_size=3), vcore=st.integers(0, 8))
    def nodes_come_and_say_what_runs(self, node, places, vcore):
        """Also with less than before. What others do by now is ended there."""
        known = [row["id"] for row in self.rows("SELECT id FROM allocations ORDER BY id")]
        running = sorted({known[place % len(known)] for place in places}) if known else []
        registration = NodeRegistration(resources={"vcore": vcore}, agent=node, running=running)
        before = self.everything()
        self.write(lambda c: register_node(c, node, registration, self.now))
        assert self.everything() == before
        over = "SELECT allocation_id FROM allocation_nodes WHERE node = ? AND ended_at IS NOT NULL ORDER BY 1"
        expected = [row[0] for row in self.rows(over, node) if row[0] in running]
        assert self.write(lambda c: strays(c, node, running)) == expected

    @rule(node=st.sampled_from(NODES))
    def a_node_falls_silent(self, node):
        """What ran there is lost with it; a gang's other parts are told to end."""
        counted = self.rows("SELECT 1 FROM nodes WHERE name = ? AND state IN ('up', 'draining')", node)
        long_ago = "UPDATE nodes SET heartbeat_at = ? - 100 WHERE name = ?"
        self.write(lambda c: c.exec_driver_sql(long_ago, (self.now, node)))
        others = "UPDATE nodes SET heartbeat_at = ? WHERE name <> ?"
        self.write(lambda c: c.exec_driver_sql(others, (self.now, node)))
        self.write(lambda c: lose_nodes(c, self.now, 60, MAX_REQUEUES))
        if counted:
            assert self.rows("SELECT state FROM nodes WHERE name = ?", node)[0][0] == NodeState.LOST
            opened = {(row["allocation_id"]) for row in self.open_parts() if row["node"] == node}
            assert not opened & {row["id"] for row in self.rows("SELECT id FROM allocations WHERE ended_at IS NULL")}

    def take_for(self, node, known=None):
        ask = Ask(node=node, agent=node, known=known)
        return self.write(lambda c: give(c, [ask], MAX_REQUEUES, self.now))[0].answer

    def takers(self):
        query = "SELECT name FROM nodes WHERE agent = name AND state IN ('up', 'draining')"
        return {row["name"] for row in self.rows(query)}

    @rule(node=st.sampled_from(NODES))
    def a_node_takes_what_waits_for_it(self, node):
        """Once; and what is to end before it was taken never starts."""
        answer = self.take_for(node)
        assert (answer is None) is (node not in self.takers())
        if answer is None:
            return
        wished = {row["id"] for row in self.rows("SELECT id FROM allocations WHERE cancel IS NOT NULL")}
        assert not wished & {start.allocation for start in answer.starts}
        assert not self.take_for(node).starts

    @rule(node=st.sampled_from(NODES))
    def an_agent_without_a_memory_compares(self, node):
        """What never started is given to it again, the rest is lost: nothing is left that nobody attends."""
        if (answer := self.take_for(node, frozenset())) is None:
            return
        left = "SELECT allocation_id FROM allocation_nodes WHERE node = ? AND taken_at IS NOT NULL AND ended_at IS NULL"
        assert {row[0] for row in self.rows(left, node)} == {start.allocation for start in answer.starts}

    @rule(node=st.sampled_from(NODES))
    def what_a_node_does_not_take_is_taken_back(self, node):
        waiting = [one for one in self.write(untaken) if one.node == node]
        present = bool(self.rows("SELECT 1 FROM nodes WHERE state IN ('up', 'draining') AND name = ?", node))
        self.write(lambda c: take_back(c, waiting, "did not take {allocation}", MAX_REQUEUES, self.now))
        assert not [one for one in self.write(untaken) if one.node == node]
        if waiting and present:
            assert self.rows("SELECT drained_by FROM nodes WHERE name = ?", node)[0][0] is not None
        assert self.take_for(node) is None or not self.take_for(node).starts

    # --- what agents report -----------------------------------------------------------------------------------

    def report(self, node, **fields):
        report = Report(at=self.now, **fields)
        self.sent.append((node, report))
        self.write(lambda c: take_reports(c, [(node, report)], MAX_REQUEUES, self.now))

    @precondition(have_allocations)
    @rule(place=PLACES)
    def start(self, place):
        allocation, node, job = self.a_part(place)
        self.report(node, allocation=allocation, job=job, kind="started")

    @precondition(have_allocations)
    @rule(place=PLACES, end=ENDS, says_when=st.booleans(), knows_job=st.booleans())
    def end(self, place, end, says_when, knows_job):
        allocation, node, job = self.a_part(place)
        started_at = self.now - 1 if says_when else None
        job = job if knows_job else 0
        self.report(node, allocation=allocation, job=job, kind="ended", started_at=started_at, **end)

    @precondition(have_allocations)
    @rule(end=ENDS)
    def end_all_that_runs(self, end):
        for allocation, node, job in self.open_parts():
            self.report(node, allocation=allocation, job=job, kind="ended", **end)
        assert not self.rows("SELECT 1 FROM allocations WHERE ended_at IS NULL")

    @rule(end=ENDS, starts=st.booleans())
    def run_whatever_waits(self, end, starts):
        """All that waits is allocated, may start, and ends: a round in which much is requeued."""
        wish = NodeWish(nodes=NODES, actor="root", reason=None, at=self.now)
        self.write(lambda c: act_on_nodes(c, wish, resume))
        self.write(lambda c: [set_state(c, node, NodeState.UP, self.now, "root") for node in NODES])
        pending = self.rows("SELECT id, revision, nodes FROM jobs WHERE state = 'pending'")
        new = [self.placement(job, job["revision"]) for job in pending]
        assert self.write(lambda c: commit_allocations(c, new, 1, self.now)) == len(new)
        for allocation, node, job in self.open_parts():
            if starts:
                self.report(node, allocation=allocation, job=job, kind="started")
            self.report(node, allocation=allocation, job=job, kind="ended", **end)

    @precondition(have_allocations)
    @rule(place=PLACES)
    def hear_late_of_an_old_start(self, place):
        old = self.rows(
            "SELECT p.allocation_id, p.node, l.job_id FROM allocation_nodes p JOIN allocations l"
            " ON l.id = p.allocation_id WHERE l.ended_at IS NOT NULL ORDER BY 1, 2"
        )
        if old:
            allocation, node, job = old[place % len(old)]
            before = self.everything()
            self.report(node, allocation=allocation, job=job, kind="started")
            after = self.everything()
            assert (after["jobs"], after["job_events"]) == (before["jobs"], before["job_events"])

    @precondition(lambda self: self.sent)
    @rule(place=PLACES)
    def deliver_again(self, place):
        again = self.sent[place % len(self.sent)]
        before = self.everything()
        self.write(lambda c: take_reports(c, [again], MAX_REQUEUES, self.now + 5))
        assert self.everything() == before

    @precondition(have_allocations)
    @rule(place=PLACES, end=ENDS, kind=st.sampled_from(["started", "ended"]))
    def hear_from_a_stranger(self, place, end, kind):
        allocation, _, job = self.a_part(place)
        before = self.everything()
        stranger = ("elsewhere", Report(allocation=allocation, job=job, kind=kind, at=self.now, **end))
        unknown = ("n0", Report(allocation=10**6, job=job, kind="started", at=self.now))
        self.write(lambda c: take_reports(c, [stranger, unknown], MAX_REQUEUES, self.now))
        assert self.everything() == before

    def everything(self):
        tables = ("jobs", "job_events", "allocations", "allocation_nodes")
        return {table: [tuple(row) for row in self.rows(f"SELECT * FROM {table}")] for table in tables}

    # --- what always holds --------------------------------------------------------------------------------------

    @invariant()
    def an_application_lives_as_long_as_its_jobs(self):
        """Moved, requeued or cancelled, whatever order they come and go in."""
        if not hasattr(self, "reader"):
            return
        jobs = self.rows("SELECT application_id, state, queue_id FROM jobs WHERE application_id IS NOT NULL")
        waiting = {job["application_id"] for job in jobs if job["state"] == State.PENDING}
        active = {job["application_id"] for job in jobs if job["state"] in ("allocated", "running")}
        queues = {row["id"]: row["queue_id"] for row in self.rows("SELECT id, queue_id FROM applications")}
        assert all(job["queue_id"] == queues[job["application_id"]] for job in jobs)
        for row in self.rows("SELECT id, state FROM applications"):
            if row["id"] in active:
                assert row["state"] in ("starting", "running")
            elif row["id"] in waiting:
                assert row["state"] in ("accepted", "starting", "running")
            else:
                assert row["state"] in ("completing", "completed", "failed")

    @invariant()
    def every_event_has_the_next_id(self):
        if hasattr(self, "reader"):
            ids = [row["id"] for row in self.rows("SELECT id FROM job_events ORDER BY id")]
            assert ids == list(range(1, len(ids) + 1))

    @invariant()
    def a_jobs_record_is_the_replay_of_its_events(self):
        if not hasattr(self, "reader"):
            return
        states, last, requeues = {}, {}, Counter()
        for event in self.rows("SELECT * FROM job_events ORDER BY id"):
            job = event["job_id"]
            states[job] = next_state(job, states.get(job), Event(event["event"]))
            assert event["state"] == states[job]
            last[job] = event["id"]
            requeues[job] += event["event"] == Event.REQUEUE
        for job in self.rows("SELECT * FROM jobs"):
            assert job["state"] == states.pop(job["id"])
            assert job["revision"] == last[job["id"]]
            assert job["requeues"] == requeues[job["id"]] <= MAX_REQUEUES
        assert not states

    @invariant()
    def a_job_has_an_open_allocation_exactly_while_it_is_active(self):
        if not hasattr(self, "reader"):
            return
        opened = [(r["job_id"], r["id"]) for r in self.rows("SELECT * FROM allocations WHERE ended_at IS NULL")]
        active = [row for row in self.rows("SELECT * FROM jobs ORDER BY id") if row["state"] in ACTIVE_STATES]
        assert sorted(opened) == [(row["id"], row["allocation_id"]) for row in active]

    @invariant()
    def a_drained_node_never_takes_jobs(self):
        if hasattr(self, "reader"):
            for row in self.rows("SELECT * FROM nodes"):
                assert not (row["state"] == NodeState.UP and row["drained_by"])
                assert not (row["state"] == NodeState.DRAINING and not row["drained_by"])

    @invariant()
    def nothing_starts_twice(self):
        if not hasattr(self, "reader"):
            return
        current, started = {}, set()
        for event in self.rows("SELECT * FROM job_events ORDER BY id"):
            job, detail = event["job_id"], json.loads(event["detail"] or "{}")
            if event["event"] == Event.ALLOCATE:
                current[job] = detail["allocation"]
            elif event["event"] == Event.START:
                assert detail["allocation"] == current[job]
                assert detail["allocation"] not in started
                started.add(detail["allocation"])
        allocated = [row["job_id"] for row in self.rows("SELECT job_id FROM job_events WHERE event = 'allocate'")]
        assert sorted(allocated) == sorted(row["job_id"] for row in self.rows("SELECT job_id FROM allocations"))

    @invariant()
    def an_allocation_ends_with_the_last_of_its_parts(self):
        if hasattr(self, "reader"):
            for row in self.rows(
                "SELECT l.ended_at, sum(p.ended_at IS NULL) AS going_on FROM allocations l"
                " JOIN allocation_nodes p ON p.allocation_id = l.id GROUP BY l.id"
            ):
                assert (row["ended_at"] is None) == bool(row["going_on"])

    @invariant()
    def a_job_is_eligible_exactly_while_nothing_keeps_it(self):
        if not hasattr(self, "reader"):
            return
        for job in self.rows("SELECT * FROM jobs"):
            if job["urgency"] == 0 and job["state"] == State.PENDING:
                assert job["held"]
            if job["state"] == State.PENDING:
                assert (job["eligible_at"] is not None) == (not job["held"] and job["blocked_by"] is None)
            assert (job["ended_at"] is not None) == (job["state"] in FINAL_STATES)

    @invariant()
    def the_parts_of_a_wait_add_up_to_the_whole(self):
        if not hasattr(self, "reader"):
            return
        for job in self.rows("SELECT * FROM jobs"):
            parts = [job[name] for name in COLUMNS.values()]
            until = job["submitted_at"] if job["waited_until"] is None else job["waited_until"]
            assert sum(parts) == until - job["submitted_at"]
            assert min(parts) >= 0
            assert job["waited_s"] in (None, sum(parts))
            has_begun = job["state"] in FINAL_STATES or job["state"] == State.RUNNING
            assert (job["waited_s"] is not None) >= has_begun

    @invariant()
    def a_wish_to_cancel_reaches_the_nodes(self):
        if hasattr(self, "reader"):
            for row in self.rows(
                "SELECT j.state, l.cancel FROM jobs j JOIN allocations l ON l.id = j.allocation_id"
                " WHERE j.cancelled_by IS NOT NULL"
            ):
                assert row["cancel"] is not None or row["state"] in FINAL_STATES


Life.TestCase.settings = settings(max_examples=effort(20, 60), stateful_step_count=40)
TestLife = Life.TestCase


def test_a_requeued_job_keeps_its_age(tmp_path):
    """And it may start again, under a new allocation."""

    async def story():
        async with open_database(new_database(tmp_path), durable=False) as database:
            catalog = await database.write(lambda c: sync_catalog(c, configuration(), NOW))
            await database.write(lambda c: add_nodes(c, "n1"))
            job = NewJob(accepted=accepted(), actor="alice", at=NOW)
            await database.write(lambda c: insert_jobs(c, [job], catalog))
            placement = NewAllocation(
                job=1, revision=1, nodes=("n1",), resources={}, charge_rate=0.0, generation=1, rank=1
            )
            assert await database.write(lambda c: commit_allocations(c, [placement], 1, NOW + 10)) == 1
            lost = Report(allocation=1, job=1, kind="ended", at=NOW + 20, cause="node_lost")
            await database.write(lambda c: take_reports(c, [("n1", lost)], 1, NOW + 20))
            query = "SELECT state, eligible_at, started_at, allocation_id, revision FROM jobs"
            row = await database.read(lambda c: tuple(c.exec_driver_sql(query).one()))
            assert row == ("pending", NOW, None, None, 3)
            again = msgspec.structs.replace(placement, revision=3)
            assert await database.write(lambda c: commit_allocations(c, [again], 2, NOW + 30)) == 1

    asyncio.run(story())


async def lose_and_allocate_again(database):
    """A job that was lost before it started, under its second allocation."""
    catalog = await database.write(lambda c: sync_catalog(c, configuration(), NOW))
    await database.write(lambda c: add_nodes(c, "n1"))
    await database.write(lambda c: insert_jobs(c, [NewJob(accepted=accepted(), actor="alice", at=NOW)], catalog))
    placement = NewAllocation(job=1, revision=1, nodes=("n1",), resources={}, charge_rate=0.0, generation=1, rank=1)
    await database.write(lambda c: commit_allocations(c, [placement], 1, NOW))
    lost = Report(allocation=1, job=1, kind="ended", at=NOW, cause="node_lost")
    await database.write(lambda c: take_reports(c, [("n1", lost)], 1, NOW))
    again = msgspec.structs.replace(placement, revision=3)
    assert await database.write(lambda c: commit_allocations(c, [again], 2, NOW)) == 1


@pytest.mark.parametrize("kind", ["started", "ended"])
def test_a_late_report_of_an_old_allocation_says_nothing_of_the_new_one(tmp_path, kind):
    async def story():
        async with open_database(new_database(tmp_path), durable=False) as database:
            await lose_and_allocate_again(database)
            late = Report(allocation=1, job=1, kind=kind, at=NOW + 1, started_at=NOW, exit_status=0)
            await database.write(lambda c: take_reports(c, [("n1", late)], 1, NOW + 1))
            query = "SELECT state, allocation_id, revision FROM jobs"
            assert await database.read(lambda c: tuple(c.exec_driver_sql(query).one())) == ("allocated", 2, 4)

    asyncio.run(story())


@pytest.fixture
def stored(tmp_path):
    """A connection to a database with four pending jobs of alice, and their ids."""
    engine = create_engine(URL.create("sqlite", database=str(new_database(tmp_path))), poolclass=StaticPool)
    with engine.begin() as connection:
        catalog = sync_catalog(connection, configuration(), NOW)
        add_nodes(connection, "n1")
        new = [NewJob(accepted=accepted(), actor="alice", at=NOW) for _ in range(4)]
        yield connection, insert_jobs(connection, new, catalog)
    engine.dispose()


@pytest.mark.parametrize(("queue", "found"), [("root.default", 4), ("ROOT.Default", 4), ("root.other", 0)])
def test_queues_of_a_filter_are_looked_up_ignoring_case(stored, queue, found):
    connection, _ = stored
    assert len(select_ids(connection, JobFilter(queues=[queue]))) == found


def test_a_gang_that_fails_in_one_place_is_ended_in_the_others(tmp_path):
    """And the job ends when the last of them has, by the cause of the first."""

    async def story():
        async with open_database(new_database(tmp_path), durable=False) as database:
            catalog = await database.write(lambda c: sync_catalog(c, configuration(), NOW))
            await database.write(lambda c: add_nodes(c, "a", "b"))
            job = NewJob(accepted=accepted(nodes=2), actor="alice", at=NOW)
            await database.write(lambda c: insert_jobs(c, [job], catalog))
            gang = NewAllocation(
                job=1, revision=1, nodes=("a", "b"), resources={}, charge_rate=0.0, generation=1, rank=1
            )
            await database.write(lambda c: commit_allocations(c, [gang], 1, NOW))
            reports = [
                ("b", Report(allocation=1, job=1, kind="ended", at=NOW + 1, exit_status=3)),
                ("a", Report(allocation=1, job=1, kind="ended", at=NOW + 2, signal=15, cause="gang")),
            ]
            await database.write(lambda c: take_reports(c, reports[:1], 1, NOW + 1))
            query = (
                "SELECT j.state, j.exit_status, j.signal, l.cancel FROM jobs j JOIN allocations l ON l.job_id = j.id"
            )
            assert await database.read(lambda c: tuple(c.exec_driver_sql(query).one())) == (
                "allocated", None, None, "gang",
            )  # fmt: skip
            await database.write(lambda c: take_reports(c, reports[1:], 1, NOW + 2))
            assert await database.read(lambda c: tuple(c.exec_driver_sql(query).one())) == ("failed", 3, None, "gang")

    asyncio.run(story())
