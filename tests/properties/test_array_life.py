"""Arrays in any order of submissions, starts, ends, holds, cancels and updates, on a real SQLite file.

After each step, every index is in exactly one record, and the numbers of each array are those of its tasks.
"""

import asyncio
import random
from collections import Counter

import msgspec
import pytest
from builder import NOW, accepted, add_nodes, configuration, new_database
from effort import effort

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_update import Task
from rankd.core.change.retry import Wish
from rankd.core.model.array import JobName, parse_array
from rankd.core.model.index_set import count, each, of, read, written
from rankd.core.model.job import ACTIVE_STATES, FINAL_STATES, State
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.catalog import admission_tables, sync_catalog
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act, split_targets
from rankd.store.record.job_name import targets_of, without_records
from rankd.store.record.job_update import judge, write_update
from rankd.store.record.old_job import read_old_job
from rankd.store.record.report import take_reports
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import Report

NODES = ("n0", "n1")
ALICE = Submitter("alice", privileged=False)
STEPS = 60


class Arrays:
    """A database, and everything that may happen to its arrays."""

    def __init__(self, directory, seed):
        self.chance = random.Random(seed)
        self.runner = asyncio.Runner()
        self.database = open_database(new_database(directory), durable=False)
        self.now = NOW
        configured = configuration()
        self.catalog = self.write(lambda c: sync_catalog(c, configured, NOW))
        self.tables = admission_tables(configured, self.catalog)
        self.write(lambda c: add_nodes(c, *NODES))
        self.whole = {}
        self.reader = sqlite3.connect(self.database.path)
        self.reader.row_factory = sqlite3.Row

    def close(self):
        self.reader.close()
        self.runner.run(self.database.__aexit__(None, None, None))
        self.runner.close()

    def write(self, work):
        self.now += 1
        return self.runner.run(self.database.write(work))

    def rows(self, query, *parameters):
        return self.reader.execute(query, parameters).fetchall()

    # --- steps --------------------------------------------------------------------------------------------------

    def submit(self):
        indices = of(self.chance.sample(range(30), self.chance.randint(1, 12)))
        text = written(indices)
        new = accepted("alice", array=parse_array(text), request={"array": text, "requeue": self.chance.random() < 0.7})
        [job] = self.write(lambda c: insert_jobs(c, [NewJob(accepted=new, actor="alice", at=self.now)], self.catalog))
        self.whole[job] = set(each(indices))

    def start(self):
        """As the scheduler: some tasks of a pending array or task, on any node."""
        found = self.rows("SELECT * FROM jobs WHERE state = 'pending' AND NOT held")
        if not found:
            return
        job = self.chance.choice(found)
        new = [
            NewAllocation(
                job=job["id"], revision=job["revision"] - (self.chance.random() < 0.05), resources={"vcore": 1},
                nodes=(self.chance.choice(NODES),), charge_rate=1.0, generation=0, rank=1,
                of_array=job["array"] is not None,
            )
            for _ in range(self.chance.randint(1, 4) if job["array"] else 1)
        ]  # fmt: skip
        self.write(lambda c: commit_allocations(c, new, 1, self.now))

    def report(self):
        found = self.rows(
            "SELECT p.node, p.allocation_id, a.job_id FROM allocation_nodes p"
            " JOIN allocations a ON a.id = p.allocation_id WHERE p.ended_at IS NULL"
        )
        if not found:
            return
        part = self.chance.choice(found)
        ends = [{"exit_status": 0}, {"exit_status": 3}, {"cause": "node_lost"}, {"signal": 15, "cause": "timeout"}]
        fields = {"kind": "started"} if self.chance.random() < 0.4 else {"kind": "ended", **self.chance.choice(ends)}
        report = Report(allocation=part["allocation_id"], job=part["job_id"], at=self.now, **fields)
        self.write(lambda c: take_reports(c, [(part["node"], report)], 2, self.now))

    def a_name(self):
        array = self.chance.choice(list(self.whole))
        if self.chance.random() < 0.25:
            return array
        return f"{array}_[{written(of(self.chance.sample(range(30), self.chance.randint(1, 5))))}]"

    def change(self):
        name, decide = self.a_name(), self.chance.choice([cancel, hold, release, release])

        def work(connection):
            found = targets_of(connection, [name]).found
            if decide is cancel and isinstance(name, int) and self.chance.random() < 0.7:
                return None
            return act(connection, found, ALICE, self.now, decide)

        reply = self.write(work)
        if reply is not None and isinstance(name, int):
            assert {one.code for one in reply.failed} <= {"already_ended", "not_pending"}

    def update(self):
        name, fields = self.a_name(), self.chance.choice([{"comment": "x"}, {"array_limit": 2}, {"time_limit_s": 60.0}])
        task = Task(JobUpdate(**fields), ALICE, self.tables, self.now)

        def work(connection):
            found = targets_of(connection, [name]).found
            if judge(connection, list(without_records(found)), task).failed:
                return
            jobs = split_targets(connection, found, "alice", self.now)
            write_update(connection, judge(connection, jobs, task), task, self.catalog)

        self.write(work)

    # --- what holds ---------------------------------------------------------------------------------------------

    def check(self):
        for array, whole in self.whole.items():
            [row] = self.rows("SELECT * FROM jobs j JOIN arrays a ON a.job_id = j.id WHERE j.id = ?", array)
            tasks = self.rows("SELECT * FROM jobs WHERE array_job = ?", array)
            self._check_indices(row, tasks, whole)
            self._check_numbers(row, tasks)
            self._check_state(row, tasks)
            self._check_marks(row, tasks)
            self._check_retry(row, tasks, whole)

    def _check_retry(self, row, tasks, whole):
        """What a retry would repeat, by the records of the tasks."""
        wish = Wish(JobName(row["job_id"], of(whole)), failed=True)
        found, _ = self.runner.run(self.database.read(lambda c: read_old_job(c, wish, ALICE)))
        ended = {task["array_task"] for task in tasks if task["state"] in FINAL_STATES - {State.COMPLETED}}
        waiting = {task["array_task"] for task in tasks if task["state"] not in FINAL_STATES}
        assert found.tasks.all == of(whole)
        assert set(each(found.tasks.unfinished)) == ended | set(each(read(row["cancelled"])))
        assert set(each(found.tasks.open)) == waiting | set(each(read(row["array"])))

    def _check_indices(self, row, tasks, whole):
        places = [*each(read(row["array"])), *each(read(row["cancelled"])), *(task["array_task"] for task in tasks)]
        assert sorted(places) == sorted(whole), "every index is in exactly one record"

    def _check_numbers(self, row, tasks):
        states = Counter(State(task["state"]) for task in tasks)
        n_failed = sum(states[state] for state in FINAL_STATES - {State.COMPLETED, State.CANCELLED})
        assert row["n_pending"] == count(read(row["array"]))
        assert row["n_open"] == sum(states[state] for state in states if state not in FINAL_STATES)
        assert row["n_active"] == sum(states[state] for state in ACTIVE_STATES)
        assert (row["n_completed"], row["n_failed"]) == (states[State.COMPLETED], n_failed)
        assert row["n_cancelled"] == states[State.CANCELLED] + count(read(row["cancelled"]))

    def _check_marks(self, row, tasks):
        """The first start of all runs, and the last end and the highest exit status of all tasks."""
        starts = "SELECT min(a.started_at) FROM allocations a JOIN jobs t ON t.id = a.job_id WHERE t.array_job = ?"
        [[first]] = self.rows(starts, row["job_id"])
        [whole] = self.rows("SELECT started_at, ended_at, exit_status, signal FROM jobs WHERE id = ?", row["job_id"])
        assert whole["started_at"] == first
        codes = [(task["exit_status"] or 0, task["signal"] or 0) for task in tasks]
        assert (whole["exit_status"] or 0, whole["signal"] or 0) == max(codes, default=(0, 0))
        ends = [task["ended_at"] for task in tasks if task["ended_at"] is not None]
        assert (whole["ended_at"] is not None) == (State(row["state"]) in FINAL_STATES)
        if whole["ended_at"] is not None and not row["cancelled"]:
            assert whole["ended_at"] == max(ends)

    def _check_state(self, row, tasks):
        state = State(row["state"])
        assert (state is State.PENDING) == (row["array"] is not None)
        is_open = any(task["state"] not in FINAL_STATES for task in tasks)
        if state is State.RUNNING:
            assert is_open, "a task is left to wait for"
        if state in FINAL_STATES:
            assert not is_open
            ends = {task["state"] for task in tasks} | ({"cancelled"} if row["cancelled"] else set())
            assert state == (ends.pop() if ends in ({"completed"}, {"cancelled"}) else "failed")


@pytest.mark.parametrize("seed", range(effort(15, 40)))
def test_each_index_is_in_one_record_and_the_numbers_agree(tmp_path, seed):
    arrays = Arrays(tmp_path, seed)
    try:
        arrays.submit()
        steps = [arrays.submit, *[arrays.start] * 3, *[arrays.report] * 4, *[arrays.change] * 2, arrays.update]
        for _ in range(STEPS):
            arrays.chance.choice(steps)()
            arrays.check()
        told = arrays.rows("SELECT detail FROM job_events WHERE event = 'split' AND detail LIKE '%array_task%'")
        tasks = [tuple(msgspec.json.decode(row["detail"]).values()) for row in told]
        assert len(tasks) == len(set(tasks)), "no task got two records"
    finally:
        arrays.close()
