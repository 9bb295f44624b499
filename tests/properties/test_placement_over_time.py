"""Cycles one after another, on a cluster whose jobs end: who starves, and what shares queues come to."""

import math
import random

import pytest
from builder import NOW, kind, node, problem, shape, views
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.core.model.reason_code import RESERVED, RESOURCES
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.problem import Hold
from rankd_plugins.node_sort.fair import Fair


class Cluster:
    """Nodes of four cores, and jobs (queue, kind) that end when their limits say so, or a little before."""

    def __init__(self, queues, n_nodes, *, sooner=0.0, **fields):
        self.queues = queues
        self.nodes = [f"n{place}" for place in range(n_nodes)]
        self.fields = fields
        self.sooner = random.Random(sooner) if sooner else None
        self.now = NOW
        self.running = []  # (end, expected end, queue, nodes, shape)
        self.used_seconds = dict.fromkeys((view.id for view in queues), 0.0)

    def cycle(self, waiting):
        """Start what can be started of {queue: [(job, kind, priority)]}; the outcome."""
        used, by_node = {view.id: {} for view in self.queues}, dict.fromkeys(self.nodes, 0)
        for _, _, queue, names, asked in self.running:
            own = used[queue]
            own["vcore"] = own.get("vcore", 0) + asked.resources["vcore"] * len(names)
            for name in names:
                by_node[name] += asked.resources["vcore"]
        used[0] = {"vcore": sum(by_node.values())}
        given = problem(
            self.queues,
            waiting,
            [node(name, 4000, {"vcore": by_node[name]} if by_node[name] else {}) for name in self.nodes],
            used=used,
            holds=[
                Hold(node=name, resources=asked.resources, ends_at=expected)
                for _, expected, _, names, asked in self.running
                for name in names
            ],
            now=self.now,
            **self.fields,
        )
        outcome = run_cycle(given, Fair())
        kinds = {job: (queue, own) for queue, jobs in waiting.items() for job, own, _ in jobs}
        for placement in outcome.placements:
            queue, own = kinds[placement.job]
            expected = self.now + own.time_limit_s
            end = self.now + own.time_limit_s * (self.sooner.uniform(0.3, 1.0) if self.sooner else 1.0)
            self.running.append((end, expected, queue, placement.nodes, own.shape))
        return outcome

    def go_on(self):
        """To the next end."""
        later = min(end for end, *_ in self.running)
        for _, _, queue, names, asked in self.running:
            self.used_seconds[queue] += (later - self.now) * asked.resources["vcore"] * len(names)
        self.now = later
        self.running = [job for job in self.running if job[0] > later]


ONE = views(("root", {}), ("root.a", {}))
WIDE = kind(shape(4000, nodes=3), time_limit_s=100.0)


def narrow(rng):
    return kind(shape(1000 * rng.randint(1, 3)), time_limit_s=float(rng.randint(10, 60)))


def waits_for(cluster, seed, rounds):
    """When a wide job among endless narrow ones of a lower priority starts; None if it does not in so many rounds."""
    rng, job = random.Random(seed), 1
    cluster.cycle({1: [(job := job + 1, narrow(rng), 0) for _ in range(12)]})
    submitted_at, reasons = cluster.now, set()
    for _ in range(rounds):
        waiting = [(1, WIDE, 5), *[(job := job + 1, narrow(rng), 0) for _ in range(8)]]
        outcome = cluster.cycle({1: waiting})
        if any(placement.job == 1 for placement in outcome.placements):
            return cluster.now - submitted_at, reasons
        reasons.update((reason.reason, reason.fact) for reason in outcome.reasons if reason.kind == 0)
        cluster.go_on()
    return None, reasons


@given(st.integers(0, 10_000), st.sampled_from(["easy", "conservative"]), st.sampled_from([0.0, 3.0]))
@settings(max_examples=effort(13, 40), deadline=None)
def test_a_wide_job_starts_within_its_bound_whatever_narrow_ones_come(seed, backfill, sooner):
    cluster = Cluster(ONE, 4, backfill=backfill, sooner=sooner)
    waited, _ = waits_for(cluster, seed, 200)
    assert waited is not None
    assert waited <= 60.0  # nothing that may run at its submission lasts longer


@pytest.mark.parametrize("seed", range(3))
def test_without_reservations_it_starves_and_its_reason_says_so(seed):
    waited, reasons = waits_for(Cluster(ONE, 4, backfill="none"), seed, 100)
    assert waited is None
    assert {code for code, _ in reasons} == {RESOURCES}
    assert all("later jobs that fit go first" in fact for _, fact in reasons)


@given(st.integers(0, 10_000))
@settings(max_examples=effort(10, 30), deadline=None)
def test_a_reservation_is_never_put_off_from_cycle_to_cycle(seed):
    """Jobs that end as expected or sooner, and new ones behind the first: its start only comes nearer."""
    rng, job, cluster = random.Random(seed), 1, Cluster(ONE, 4, backfill="easy", sooner=1.0)
    cluster.cycle({1: [(job := job + 1, narrow(rng), 0) for _ in range(12)]})
    promised = math.inf
    for _ in range(60):
        outcome = cluster.cycle({1: [(1, WIDE, 5), *[(job := job + 1, narrow(rng), 0) for _ in range(8)]]})
        if any(placement.job == 1 for placement in outcome.placements):
            assert cluster.now <= promised
            return
        (reservation,) = outcome.reservations
        assert reservation.job == 1
        assert reservation.starts_at <= promised
        promised = reservation.starts_at
        assert {reason.reason for reason in outcome.reasons} <= {RESOURCES, RESERVED}
        cluster.go_on()
    pytest.fail("it has not started")


SHARES = {1: 1, 2: 2, 3: 5}


@given(st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_always_busy_queues_come_to_use_what_they_are_guaranteed(seed):
    guaranteed = [(f"root.q{queue}", {"guaranteed": {"vcore": 4000 * share}}) for queue, share in SHARES.items()]
    cluster = Cluster(views(("root", {}), *guaranteed), 8, backfill="none", sooner=1.0)
    rng, job = random.Random(seed), 0
    for _ in range(400):
        waiting = {
            queue: [(job := job + 1, kind(shape(1000), time_limit_s=float(rng.randint(10, 60))), 0) for _ in range(40)]
            for queue in SHARES
        }
        cluster.cycle(waiting)
        cluster.go_on()
    total = sum(cluster.used_seconds.values())
    for queue, share in SHARES.items():
        assert cluster.used_seconds[queue] / total == pytest.approx(share / sum(SHARES.values()), rel=0.1)
