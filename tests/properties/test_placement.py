"""Cycles on random trees, nodes and jobs: what must hold for every one of them."""

import math
import random

import msgspec
import numpy as np
from builder import AMOUNTS, NOW, PRIORITIES, forests, job_row, leaves_of, shape, state, waiting_jobs
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_problem import random_problem
from placement_reference import Reference

from rankd.core.model.node import NodeState
from rankd.core.model.quantity import Resources
from rankd.core.model.reason_code import NO_NODE_FITS, QUEUE_QUOTA, RESERVED, RESOURCES, USER_LIMIT
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.constraint import parse_constraints, satisfied
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import PartitionProblem
from rankd.core.placement.traversal import Traversal
from rankd.core.ranking.queue_view import roll_up
from rankd.core.ranking.ranking import rank
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

POLICIES = {"fair": Fair(), "binpacking": Binpacking()}
SEEDS = st.integers(0, 2**40)
PROBLEMS = SEEDS.map(lambda seed: random_problem(random.Random(seed)))


def cycle(given):
    return run_cycle(given, POLICIES[given.node_sort.type])


def jobs_by_id(given):
    """By job its queue and kind."""
    return {
        job: (queue, given.kinds[kind])
        for queue, waiting in given.waiting.items()
        for job, kind in zip(waiting.jobs.tolist(), waiting.kinds.tolist(), strict=True)
    }


def taken(given, kind, nodes):
    """Per node what a job of this kind has of it."""
    capacities = {node.name: node.capacity for node in given.nodes}
    return {name: capacities[name] if kind.shape.exclusive else kind.shape.resources for name in nodes}


def add(total, amount):
    for kind, value in amount.items():
        total[kind] = total.get(kind, 0) + value


# --- the whole cycle, against one that is written down slowly --------------------------------------------------------


@given(SEEDS)
@settings(max_examples=effort(133, 400))
def test_a_cycle_decides_as_the_slow_reference_does(seed):
    given = random_problem(random.Random(seed))
    placements, reservations, reasons = Reference(given).run()
    outcome = cycle(given)
    assert [(p.job, p.nodes) for p in outcome.placements] == placements
    assert [(r.job, r.nodes, r.starts_at) for r in outcome.reservations] == reservations
    assert {job: reason.reason for job, reason in outcome.by_job.items()} == reasons


@given(PROBLEMS)
@settings(max_examples=effort(67, 200))
def test_passing_whole_kinds_decides_the_same_as_looking_at_each_job(given):
    each = cycle(given)
    together = cycle(msgspec.structs.replace(given, each=False))
    assert together.placements == each.placements
    assert together.reservations == each.reservations
    started = {placement.job for placement in each.placements}
    reasons = {(reason.queue, reason.kind): reason.reason for reason in together.reasons}
    assert len(reasons) == len(together.reasons)
    places = {
        job: (queue, kind)
        for queue, waiting in given.waiting.items()
        for job, kind in zip(waiting.jobs.tolist(), waiting.kinds.tolist(), strict=True)
    }
    firsts: dict[tuple[int, int], str] = {}
    for job, reason in each.by_job.items():
        firsts.setdefault(places[job], reason.reason)
    for job, (queue, kind) in places.items():
        if job not in started:
            told = reasons.get((queue, kind)) or reasons[None, kind]
            # what was passed without a look is told of at the cycle's end, when quotas may be used up
            assert told in (firsts[queue, kind], QUEUE_QUOTA, USER_LIMIT)


@given(PROBLEMS)
@settings(max_examples=effort(100, 300))
def test_a_cycle_without_reasons_decides_the_same(given):
    explained = cycle(msgspec.structs.replace(given, each=False))
    silent = cycle(msgspec.structs.replace(given, each=False, explain=False))
    assert silent.placements == explained.placements
    assert silent.reservations == explained.reservations
    assert silent.reasons == ()


# --- nodes ------------------------------------------------------------------------------------------------------------


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_no_node_is_ever_over_allocated(given):
    nodes = {node.name: node for node in given.nodes}
    jobs = jobs_by_id(given)
    used = {name: dict(node.used) for name, node in nodes.items()}
    for placement in cycle(given).placements:
        kind = jobs[placement.job][1]
        for name, amount in taken(given, kind, placement.nodes).items():
            add(used[name], amount)
            for resource in kind.shape.resources:
                assert used[name][resource] <= nodes[name].capacity.get(resource, 0)


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_a_placement_is_whole_and_on_nodes_that_may_take_it(given):
    nodes, jobs, outcome = {node.name: node for node in given.nodes}, jobs_by_id(given), cycle(given)
    for decided in (*outcome.placements, *outcome.reservations):
        asked = jobs[decided.job][1].shape
        assert asked.min_nodes <= len(decided.nodes) <= asked.nodes
        assert len(set(decided.nodes)) == len(decided.nodes)
        for name in decided.nodes:
            assert nodes[name].state is NodeState.UP
            assert satisfied(parse_constraints(asked.constraints), nodes[name].labels, name)


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_an_exclusive_job_shares_its_nodes_with_nobody(given):
    jobs = jobs_by_id(given)
    busy = {hold.node for hold in given.holds} | {node.name for node in given.nodes if any(node.used.values())}
    tenants: dict[str, list[int]] = {}
    for placement in cycle(given).placements:
        for name in placement.nodes:
            tenants.setdefault(name, []).append(placement.job)
    for name, there in tenants.items():
        if any(jobs[job][1].shape.exclusive for job in there):
            assert len(there) == 1
            assert name not in busy


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_no_free_node_is_idle_while_a_job_waits_that_fits_and_delays_no_reservation(given):
    """Without backfill nothing is reserved; then who waits for resources has too few nodes with room."""
    given = msgspec.structs.replace(given, backfill="none")
    outcome, jobs = cycle(given), jobs_by_id(given)
    used = {node.name: dict(node.used) for node in given.nodes}
    guests = {hold.node for hold in given.holds} | {node.name for node in given.nodes if any(node.used.values())}
    alone = {hold.node for hold in given.holds if hold.exclusive}
    for placement in outcome.placements:
        guests.update(placement.nodes)
        alone.update(placement.nodes if jobs[placement.job][1].shape.exclusive else ())
        for name, amount in taken(given, jobs[placement.job][1], placement.nodes).items():
            add(used[name], amount)
    has_quotas = any(view.maximum or view.limits for view in given.queues)
    for job, reason in outcome.by_job.items():
        asked = jobs[job][1].shape
        # of nodes that count whole, those that are free may be more than a quota leaves, and others not
        if reason.reason == RESOURCES and not (asked.exclusive and has_quotas):
            free = [node for node in given.nodes if has_room(node, used[node.name], asked, guests, alone)]
            assert len(free) < asked.min_nodes


def has_room(node, used, asked, guests, alone):
    return (
        node.state is NodeState.UP
        and satisfied(parse_constraints(asked.constraints), node.labels, node.name)
        and all(node.capacity.get(k, 0) - used.get(k, 0) >= amount for k, amount in asked.resources.items())
        and node.name not in (guests if asked.exclusive else alone)
    )


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_no_node_fits_is_said_of_what_empty_nodes_could_not_hold(given):
    jobs = jobs_by_id(given)
    for job, reason in cycle(given).by_job.items():
        asked = jobs[job][1].shape
        able = [node for node in given.nodes if has_room(node, {}, asked, (), ())]
        if reason.reason in (RESOURCES, RESERVED):
            assert len(able) >= asked.min_nodes
        elif reason.reason == NO_NODE_FITS:
            assert len(able) < asked.min_nodes


# --- quotas -----------------------------------------------------------------------------------------------------------


def started_in(given, outcome, view):
    """(kind, leaf, amount) of what starts in a queue or below it."""
    below = {view.id}
    for other in given.queues:
        if other.parent in below:
            below.add(other.id)
    jobs = jobs_by_id(given)
    for placement in outcome.placements:
        queue, kind = jobs[placement.job]
        if queue in below:
            amount: Resources = {}
            for own in taken(given, kind, placement.nodes).values():
                add(amount, own)
            yield kind, queue, amount


@given(PROBLEMS)
@settings(max_examples=effort(50, 150))
def test_starts_bring_no_queue_over_its_maximum(given):
    outcome = cycle(given)
    for view in given.queues:
        started: Resources = {}
        for _, _, amount in started_in(given, outcome, view):
            add(started, amount)
        for resource, most in view.maximum.items():
            if started.get(resource):
                assert given.used[view.id].get(resource, 0) + started[resource] <= most


@given(PROBLEMS)
@settings(max_examples=effort(50, 150))
def test_starts_bring_no_user_over_a_limit_that_names_them(given):
    outcome = cycle(given)
    for view in given.queues:
        below = {view.id}
        for other in given.queues:
            if other.parent in below:
                below.add(other.id)
        for limit in view.limits:
            for user in set(limit.users) - {"*"}:
                used: Resources = {}
                for tenant in given.tenants:
                    if tenant.queue in below and tenant.user == user:
                        add(used, tenant.amount)
                mine = [own for own in started_in(given, outcome, view) if own[0].user == user]
                for _, _, amount in mine:
                    add(used, amount)
                for resource, most in limit.maxresources.items():
                    assert used.get(resource, 0) <= most or not any(own[2].get(resource) for own in mine)


# --- reservations -----------------------------------------------------------------------------------------------------


@given(PROBLEMS)
@settings(max_examples=effort(67, 200))
def test_no_reservation_is_delayed_by_what_starts(given):
    """At its instant, and for its limit, each has its room beside all that runs, starts and is reserved before it."""
    outcome, jobs = cycle(given), jobs_by_id(given)
    nodes = {node.name: node for node in given.nodes}
    items: dict[str, list[tuple[float, float, Resources]]] = {name: [] for name in nodes}
    for hold in given.holds:
        items[hold.node].append((-math.inf, max(hold.ends_at, given.now), hold.resources))
    for decided in (*outcome.placements, *outcome.reservations):
        kind = jobs[decided.job][1]
        begins = getattr(decided, "starts_at", given.now)
        ends = begins + (math.inf if kind.time_limit_s is None else kind.time_limit_s)
        for name, amount in taken(given, kind, decided.nodes).items():
            items[name].append((begins, ends, amount))
    for reservation in outcome.reservations:
        kind = jobs[reservation.job][1]
        for name in reservation.nodes:
            room_lasts(nodes[name], items[name], kind, reservation.starts_at)


def room_lasts(node, items, kind, begins):
    ends = begins + (math.inf if kind.time_limit_s is None else kind.time_limit_s)
    for instant in {begins, *(item[0] for item in items if begins < item[0] < ends)}:
        for resource in kind.shape.resources:
            there = sum(item[2].get(resource, 0) for item in items if item[0] <= instant < item[1])
            assert there <= node.capacity.get(resource, 0), (node.name, resource, instant)


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_as_many_are_reserved_for_as_the_settings_say(given):
    outcome = cycle(given)
    blocked = [reason for reason in outcome.by_job.values() if reason.reason in (RESOURCES, RESERVED)]
    match given.backfill:
        case "none":
            assert outcome.reservations == ()
            assert RESERVED not in {reason.reason for reason in outcome.by_job.values()}
        case "easy":
            assert len(outcome.reservations) <= given.reserve_depth
        case "conservative":
            assert len(outcome.reservations) <= len(blocked)
    assert {reservation.job for reservation in outcome.reservations} <= {
        job for job, reason in outcome.by_job.items() if reason.reason in (RESOURCES, RESERVED)
    }


# --- order and reasons ------------------------------------------------------------------------------------------------


@given(PROBLEMS)
@settings(max_examples=effort(33, 100))
def test_every_job_is_placed_once_or_has_a_reason(given):
    outcome = cycle(given)
    placed = [placement.job for placement in outcome.placements]
    assert len(set(placed)) == len(placed)
    assert set(outcome.by_job) == set(jobs_by_id(given)) - set(placed)
    codes = {reason.reason for reason in outcome.by_job.values()}
    assert codes <= {QUEUE_QUOTA, USER_LIMIT, NO_NODE_FITS, RESOURCES, RESERVED}
    assert all(reason.fact for reason in outcome.by_job.values())


@given(PROBLEMS, st.randoms(use_true_random=False))
@settings(max_examples=effort(33, 100))
def test_neither_chance_nor_the_order_of_rows_decides_anything(given, order):
    def shuffled(items):
        items = list(items)
        order.shuffle(items)
        return items

    places = shuffled(range(len(given.kinds)))
    turned = msgspec.structs.replace(
        given,
        nodes=shuffled(given.nodes),
        holds=shuffled(given.holds),
        tenants=shuffled(given.tenants),
        kinds=KindTable(given.kinds[place] for place in places),
        waiting={
            queue: msgspec.structs.replace(own, kinds=np.array([places.index(kind) for kind in own.kinds.tolist()]))
            for queue, own in shuffled(given.waiting.items())
        },
        queues=[given.queues[0], *sorted(given.queues[1:], key=lambda v: (v.path.count("."), order.random()))],
    )
    first = cycle(given)
    assert cycle(given) == first
    other = cycle(turned)
    assert other.placements == first.placements
    assert other.reservations == first.reservations
    assert {job: r.reason for job, r in other.by_job.items()} == {job: r.reason for job, r in first.by_job.items()}


# --- the traversal --------------------------------------------------------------------------------------------------


@st.composite
def walks(draw):
    """A tree with jobs of one shape each, as a pass and as a traversal see it."""
    (views,) = draw(forests(max_depth=3, trees=(1,)))
    leaves = leaves_of([views])
    total = draw(st.sampled_from([{}, {"vcore": 10}, {"vcore": 8, "gpu": 4}]))
    rows = [
        job_row(
            job,
            queue=draw(st.sampled_from(leaves)),
            class_value=draw(PRIORITIES),
            submitted_at=draw(st.sampled_from([NOW - 1, NOW])),
            shape=draw(st.integers(0, 1)),
        )
        for job in range(1, draw(st.integers(0, 30)) + 1)
    ]
    used = {leaf: draw(AMOUNTS) for leaf in leaves}
    kinds = [{"vcore": 1}, {"vcore": 2, "gpu": 1}]
    return views, rows, used, kinds, total


@given(walks())
@settings(max_examples=effort(27, 80))
def test_as_long_as_nothing_starts_the_traversal_is_the_ranking(drawn):
    views, rows, used, amounts, total = drawn
    given_state = state(*rows, queues=views, used=used, shapes=amounts, totals=[total])
    ranking = rank(given_state, PrioritySettings(policy="class", weights={}), [], NOW)
    by_id = {row.id: row for row in rows}
    listed: dict[int, list] = {}
    for job in ranking.ids.tolist():
        row = by_id[job]
        listed.setdefault(row.queue, []).append((job, shape(resources=amounts[row.shape]), row.class_value))
    kinds = []
    waiting = {queue: waiting_jobs(jobs, kinds) for queue, jobs in listed.items()}
    partition = PartitionState()
    usage = roll_up(used, views)
    problem = PartitionProblem(queues=views, waiting=waiting, kinds=KindTable(kinds), used=usage, nodes=())
    partition.update(problem, total)
    walk = Traversal(partition)
    walked = []
    while (turn := walk.next()) is not None:
        walked.append(turn.job)
    assert walked == ranking.ids.tolist()
