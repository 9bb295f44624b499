"""Jobs and arrays that wait for each other, in any order of events, against a slow reference that reads all records.

The events are those of :mod:`test_array_life`: every index stays in exactly one record. The prioritizer's memory
follows the records. Whenever it has nothing left to look at, each waiting job is blocked as the reference says.
"""

import json
import tempfile
from pathlib import Path

from builder import accepted
from effort import effort
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.test_array_life import ALICE, Arrays

from rankd.core.change.job_update import Task
from rankd.core.model.array import parse_array
from rankd.core.model.index_set import each, of, read, written
from rankd.core.model.job import FINAL_STATES, Dependency
from rankd.mirror.job_table import JobTable, Membership
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.role import ROLE
from rankd.store.feed.job import changed_jobs, load_jobs
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_update import judge, write_update
from rankd.wire.job_update import JobUpdate

FINAL = {state.value for state in FINAL_STATES}
KINDS = ("afterok", "afterany", "afternotok", "after")
MET, OPEN, NEVER = "met", "open", "never"
SHOWN = {OPEN: "dependency", NEVER: "dependency never satisfied"}
STEPS = 40


class Waiting(Arrays):
    """Arrays and single jobs with dependencies of every kind, and the memory that lets them go."""

    def __init__(self, directory, chance):
        super().__init__(directory, 0)
        self.chance = chance
        self.cancels = False
        self.runner.run(self.database.take_role(ROLE, self.now))
        self.restart()

    def restart(self):
        """The prioritizer begins anew, from the records."""
        self.jobs = JobTable()
        queues = {row["id"]: 0 for row in self.rows("SELECT id FROM queues")}
        self.membership = Membership(queues, frozenset())
        self.jobs.load(self.read(load_jobs), self.membership)
        self.eligibility = Eligibility(self.jobs, self.database, lambda: self.cancels)

    def read(self, work):
        return self.runner.run(self.database.read(work))

    def look(self):
        """Until there is nothing left to look at."""
        while True:
            found = self.read(lambda c: changed_jobs(c, self.jobs.revision, self.jobs.shapes))
            self.jobs.apply(found, self.membership)
            self.now += 1
            if not self.runner.run(self.eligibility.release(self.now)) and not found.jobs:
                return

    # --- steps --------------------------------------------------------------------------------------------------

    def submit(self):
        indices = of(self.chance.sample(range(6), self.chance.randint(1, 6)))
        alike = [(job, whole) for job, whole in self.whole.items()]
        depends_on = self.some_dependencies()
        by_index = bool(alike) and self.chance.random() < 0.4
        if by_index:
            other, whole = self.chance.choice(alike)
            indices = of(whole)
            depends_on.append(Dependency(type="aftercorr", job=other))
        is_array = by_index or self.chance.random() < 0.5
        text = written(indices) if is_array else None
        new = accepted(
            "alice",
            array=parse_array(text) if is_array else None,
            request={
                "array": text, "depends_on": depends_on, "name": self.chance.choice("ab"),
                "cancel_if_unmet": self.chance.choice([None, None, True, False]),
            },
        )  # fmt: skip
        [job] = self.write(lambda c: insert_jobs(c, [NewJob(accepted=new, actor="alice", at=self.now)], self.catalog))
        if is_array:
            self.whole[job] = set(each(indices))

    def some_dependencies(self, before=10**9):
        found = []
        known = [row["id"] for row in self.rows("SELECT id FROM jobs WHERE array_job IS NULL AND id < ?", before)]
        for _ in range(self.chance.choice([0, 0, 1, 1, 2]) if known else 0):
            job = self.chance.choice(known)
            name = f"{job}_{self.chance.choice(sorted(self.whole[job]))}" if job in self.whole else job
            name = self.chance.choice([job, name])
            found.append(Dependency(type=self.chance.choice(KINDS), job=name))
        return found + [Dependency(type="singleton")] * (self.chance.random() < 0.15)

    def change(self):
        """Cancel, hold or release an array or some of its tasks, if there is one."""
        if self.whole:
            super().change()

    def start(self):
        """As the scheduler: only what is eligible, and of an array as many tasks as may start."""
        found = self.rows(
            "SELECT j.*, coalesce(a.n_eligible, a.n_pending, 1) AS most"
            " FROM jobs j LEFT JOIN arrays a ON a.job_id = j.id WHERE j.state = 'pending' AND j.eligible_at IS NOT NULL"
        )
        if not found:
            return
        job = self.chance.choice(found)
        new = NewAllocation(
            job=job["id"], revision=job["revision"], resources={"vcore": 1}, nodes=(self.chance.choice(("n0", "n1")),),
            charge_rate=1.0, generation=0, rank=1, of_array=job["array"] is not None,
        )  # fmt: skip
        number = self.chance.randint(1, job["most"]) if job["array"] else 1
        before = {row["id"] for row in self.rows("SELECT id FROM jobs WHERE state = 'allocated'")}
        assert self.write(lambda c: commit_allocations(c, [new] * number, 1, self.now)) == number
        for row in self.rows("SELECT * FROM jobs WHERE state = 'allocated'"):
            if row["id"] not in before:
                assert self.standing(row, row["array_task"], skips=("after",)) == MET, "it has started too early"

    def update(self):
        """Other dependencies; or whether jobs are cancelled."""
        if self.chance.random() < 0.3:
            self.cancels = not self.cancels
            self.jobs.blocked.look_at_all()
            return
        pending = self.rows("SELECT * FROM jobs WHERE state = 'pending'")
        if not pending:
            return
        job = self.chance.choice(pending)
        wanted = JobUpdate(depends_on=self.some_dependencies(job["array_job"] or job["id"]))
        task = Task(wanted, ALICE, self.tables, self.now)
        reply = self.write(lambda c: write_update(c, judge(c, [job["id"]], task), task, self.catalog))
        assert reply.failed == []

    # --- the reference ------------------------------------------------------------------------------------------

    def look_up(self):
        rows = self.rows("SELECT j.*, a.cancelled FROM jobs j LEFT JOIN arrays a ON a.job_id = j.id")
        self.by_id = {row["id"]: row for row in rows}
        self.of_task = {(row["array_job"], row["array_task"]): row for row in rows if row["array_job"]}

    def ends(self, array):
        """(state, has begun) of each task of an array."""
        return [self.end(array, index) for index in self.whole[array]]

    def end(self, array, index):
        row = self.of_task.get((array, index))
        if row is not None:
            return row["state"], row["started_at"] is not None
        return "pending" if index in set(each(read(self.by_id[array]["array"]))) else "cancelled", False

    def one(self, dependency, row, index):
        kind, name = dependency["type"], dependency.get("job")
        order = row["array_job"] or row["id"]
        if kind == "singleton":
            is_first = not any(
                other["user"] == row["user"] and other["name"] == row["name"] and other["state"] not in FINAL
                and (other["array_job"] or other["id"]) < order
                for other in self.by_id.values()
            )  # fmt: skip
            return MET if is_first else OPEN
        if kind == "aftercorr":
            ends = [self.end(name, index)]
        elif isinstance(name, str):
            array, _, task = name.partition("_")
            ends = [self.end(int(array), int(task))]
        elif name in self.whole:
            ends = self.ends(name)
        else:
            ends = [(self.by_id[name]["state"], self.by_id[name]["started_at"] is not None)]
        has_ended = all(state in FINAL for state, _ in ends)
        has_completed = all(state == "completed" for state, _ in ends)
        can_complete = all(state == "completed" or state not in FINAL for state, _ in ends)
        if kind in ("afterok", "aftercorr"):
            return MET if has_completed else OPEN if can_complete else NEVER
        if kind == "afternotok":
            return NEVER if has_completed else MET if has_ended else OPEN
        has_begun = all(begun or state in FINAL for state, begun in ends)
        return MET if (has_ended if kind == "afterany" else has_begun) else OPEN

    def standing(self, row, index=None, skips=()):
        self.look_up()
        found = {self.one(one, row, index) for one in json.loads(row["depends_on"] or "[]") if one["type"] not in skips}
        return NEVER if NEVER in found else OPEN if OPEN in found else MET

    # --- what holds ---------------------------------------------------------------------------------------------

    def check_settled(self):
        for row in self.rows("SELECT * FROM jobs WHERE state = 'pending'"):
            dependencies = json.loads(row["depends_on"] or "[]")
            asks = self.cancels if row["cancel_if_unmet"] is None else bool(row["cancel_if_unmet"])
            if row["array"] is not None and any(one["type"] == "aftercorr" for one in dependencies):
                self.check_by_index(row, asks=asks)
                continue
            found = self.standing(row, row["array_task"])
            if row["blocked_by"] is not None:
                assert row["blocked_by"] == SHOWN.get(found), (dict(row), found)
                assert not (asks and found == NEVER)
            elif row["id"] not in self.was_met:
                assert found == MET, (dict(row), found)
            if row["blocked_by"] is None:
                self.was_met.add(row["id"])

    def check_by_index(self, row, *, asks):
        [own] = self.rows("SELECT * FROM arrays WHERE job_id = ?", row["id"])
        pending = set(each(read(row["array"])))
        by_index = [one for one in json.loads(row["depends_on"]) if one["type"] == "aftercorr"]
        self.look_up()
        ends = {index: [self.end(one["job"], index)[0] for one in by_index] for index in pending}
        completed = {index for index, states in ends.items() if set(states) == {"completed"}}
        unmet = {index for index, states in ends.items() if set(states) & (FINAL - {"completed"})}
        assert set(each(read(own["eligible"]))) == completed
        assert set(each(read(own["unmet"]))) == unmet
        assert (own["n_eligible"], own["n_unmet"]) == (len(completed), len(unmet))
        assert not (asks and unmet)
        others = self.standing(row, skips=("aftercorr",))
        if row["blocked_by"] is None:
            assert completed
        else:
            own_standing = MET if completed else NEVER if unmet == pending else OPEN
            assert row["blocked_by"] == SHOWN.get(max(others, own_standing, key=(MET, OPEN, NEVER).index))

    was_met: set


@settings(max_examples=effort(20, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_jobs_wait_exactly_as_long_as_a_slow_reference_says(chance):
    with tempfile.TemporaryDirectory() as directory:
        jobs = Waiting(Path(directory), chance)
        jobs.was_met = set()
        try:
            steps = [
                *[jobs.submit] * 3, *[jobs.start] * 4, *[jobs.report] * 5, jobs.change, jobs.update, *[jobs.look] * 4,
                jobs.restart,
            ]  # fmt: skip
            for _ in range(STEPS):
                chance.choice(steps)()
                jobs.check()
            jobs.look()
            jobs.check_settled()
            jobs.check()
        finally:
            jobs.close()
