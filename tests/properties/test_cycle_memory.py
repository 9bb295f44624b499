"""Cycles that share a memory, over random sequences of events: each decides and says what one without it does."""

import random

import msgspec
import numpy as np
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_problem import LIMITS, USERS, add, random_nodes, random_problem, random_shape, random_tenants

from rankd.core.model.node import NodeState
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import WaitingJobs
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.queue_view import roll_up
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

POLICIES = {"fair": Fair(), "binpacking": Binpacking()}
SEEDS = st.integers(0, 2**40)


class Site:
    """A problem to which things happen; what they do not touch stays the same objects, as in the scheduler."""

    def __init__(self, rng):
        self.rng = rng
        given = random_problem(rng)
        self.problem = msgspec.structs.replace(given, nodes=NodeSet(given.nodes), each=rng.random() < 0.1)
        self.next_job = 1000

    def change(self, **fields):
        self.problem = msgspec.structs.replace(self.problem, **fields)

    def happen(self):
        event = self.rng.choice(EVENTS)
        event(self)

    def leaf(self):
        """One that may have jobs."""
        parents = {view.parent for view in self.problem.queues}
        return self.rng.choice([v for v in self.problem.queues if v.id not in parents and v.parent is not None])

    def put(self, queue, waiting):
        others = {other: jobs for other, jobs in self.problem.waiting.items() if other != queue}
        self.change(waiting=others | ({queue: waiting} if waiting is not None else {}))

    # --- what happens

    def nothing(self):
        """A cycle for no reason."""

    def later(self):
        self.change(now=self.problem.now + self.rng.choice([0.5, 1.0, 3.0]))

    def submit(self):
        kinds, leaf = self.problem.kinds, self.leaf()
        if not len(kinds) or self.rng.random() < 0.3:
            kinds.add(self.new_kind())
        self.next_job += 1
        own = self.problem.waiting.get(leaf.id)
        at = self.rng.randint(0, 0 if own is None else len(own.jobs))
        if own is not None and len(own.jobs):
            least, most = own.priorities[max(at - 1, 0)], own.priorities[min(at, len(own.jobs) - 1)]
        else:
            least = most = 0
        place = self.rng.randrange(len(kinds))
        application = kinds[place].application
        row = (self.next_job, self.rng.choice([least, most]), place, application, self.problem.now)
        self.put(leaf.id, inserted(own, at, row))

    def new_kind(self):
        resources = random_shape(self.rng)
        if self.rng.random() < 0.2:
            resources = msgspec.structs.replace(resources, resources={**resources.resources, "fpga": 1})
        return Kind(shape=resources, time_limit_s=self.rng.choice(LIMITS), user=self.rng.choice(USERS))

    def withdraw(self):
        if self.problem.waiting:
            queue = self.rng.choice(sorted(self.problem.waiting))
            own = self.problem.waiting[queue]
            kept = np.array([self.rng.random() < 0.6 for _ in own.jobs], dtype=bool)
            self.put(queue, taken(own, np.flatnonzero(kept)) if kept.any() else None)

    def rerank(self):
        """Other priorities for the same jobs, in all leaves."""
        more = self.rng.randint(-2, 2)
        self.change(
            waiting={
                queue: msgspec.structs.replace(own, priorities=own.priorities + more)
                for queue, own in self.problem.waiting.items()
            }
        )

    def start(self):
        """What the cycle decides comes true, as far as queues and nodes notice."""
        outcome = run_cycle(self.problem, POLICIES[self.problem.node_sort.type])
        used = {view.id: dict(self.problem.used.get(view.id, {})) for view in self.problem.queues}
        above = {view.id: view.parent for view in self.problem.queues}
        waiting, nodes = dict(self.problem.waiting), {n.name: n for n in self.problem.nodes.nodes}
        for placement in outcome.placements:
            queue = next(queue for queue, own in waiting.items() if placement.job in own.jobs)
            own = waiting[queue]
            asked = self.problem.kinds[int(own.kinds[own.jobs == placement.job][0])].shape
            for name in placement.nodes:
                amount = nodes[name].capacity if asked.exclusive else asked.resources
                more = dict(nodes[name].used)
                add(more, amount)
                nodes[name] = msgspec.structs.replace(nodes[name], used=more)
                at = queue
                while at is not None:
                    add(used[at], amount)
                    at = above[at]
            waiting[queue] = taken(own, np.flatnonzero(own.jobs != placement.job))
        self.change(waiting=waiting, used=used, nodes=NodeSet(list(nodes.values())))

    def run_other_jobs(self):
        """Other jobs run, on the same nodes or others."""
        nodes, holds = random_nodes(self.rng)
        parents = {view.parent for view in self.problem.queues}
        leaves = [v for v in self.problem.queues if v.id not in parents and v.parent is not None]
        tenants = random_tenants(self.rng, holds, leaves, self.problem.applications.queues.tolist())
        used, by_application = {}, {}
        for tenant in tenants:
            add(used.setdefault(tenant.queue, {}), tenant.amount)
            if tenant.application != NO_GROUP:
                add(by_application.setdefault(tenant.application, {}), tenant.amount)
        self.change(
            nodes=NodeSet(nodes),
            holds=holds,
            tenants=tenants,
            used=roll_up(used, self.problem.queues),
            applications=msgspec.structs.replace(self.problem.applications, used=by_application),
        )

    def drain(self):
        nodes = self.problem.nodes.nodes
        if nodes:
            out = self.rng.choice(nodes).name
            state = self.rng.choice(list(NodeState))
            again = [msgspec.structs.replace(n, state=state) if n.name == out else n for n in nodes]
            self.change(nodes=NodeSet(again))

    def reconfigure(self):
        """The same queues with other properties, or only as other objects."""
        queues = [msgspec.structs.replace(view) for view in self.problem.queues]
        place = self.rng.randrange(len(queues))
        queues[place] = msgspec.structs.replace(
            queues[place],
            maximum=self.rng.choice([{}, {"vcore": 3}, {"vcore": 9, "memory": 5}]),
            maxapplications=self.rng.choice([0, 0, 2]) if queues[place].parent is not None else 0,
        )
        backfill = self.rng.choice(["easy", "conservative", "none", "strict"])
        order = self.rng.choice(["rank", "shortest"]) if backfill == "easy" else "rank"
        self.change(queues=queues, backfill=backfill, backfill_order=order)

    def forget_kinds(self):
        """Another table of kinds, in another order."""
        kinds = self.problem.kinds
        places = self.rng.sample(range(len(kinds)), len(kinds))
        renamed = np.argsort(np.array(places, dtype=np.int64))
        waiting = {
            queue: msgspec.structs.replace(own, kinds=renamed[own.kinds]) for queue, own in self.problem.waiting.items()
        }
        self.change(kinds=KindTable(kinds[place] for place in places), waiting=waiting)


EVENTS = [
    Site.nothing,
    Site.later,
    *[Site.submit] * 4,
    *[Site.withdraw] * 2,
    Site.rerank,
    *[Site.start] * 2,
    Site.run_other_jobs,
    Site.drain,
    Site.reconfigure,
    Site.forget_kinds,
]


def columns(waiting):
    n = len(waiting.jobs)
    applications = np.full(n, NO_GROUP) if waiting.applications is None else waiting.applications
    submitted = np.zeros(n) if waiting.submitted_at is None else waiting.submitted_at
    return [waiting.jobs, waiting.priorities, waiting.kinds, applications, submitted]


def made(arrays):
    names = ("jobs", "priorities", "kinds", "applications", "submitted_at")
    return WaitingJobs(**dict(zip(names, arrays, strict=True)))


def taken(waiting, places):
    return made([column[places] for column in columns(waiting)])


def inserted(waiting, at, row):
    if waiting is None:
        return made([np.array([value], dtype=type(value)) for value in row])
    return made([np.insert(column, at, value) for column, value in zip(columns(waiting), row, strict=True)])


def what_is_decided(outcome):
    for reasons in (outcome.own, outcome.common):
        assert len({(reason.queue, reason.kind) for reason in reasons}) == len(reasons)
    return (
        outcome.placements,
        outcome.reservations,
        set(outcome.own),
        set(outcome.common),
        outcome.by_job,
        outcome.looked_at,
        outcome.backfilled,
    )


@given(SEEDS)
@settings(max_examples=effort(100, 300))
def test_a_cycle_with_a_memory_decides_what_one_without_does(seed):
    site, memory = Site(random.Random(seed)), CycleMemory()
    for _ in range(12):
        policy = POLICIES[site.problem.node_sort.type]
        remembered = run_cycle(site.problem, policy, memory)
        assert what_is_decided(remembered) == what_is_decided(run_cycle(site.problem, policy))
        site.happen()
