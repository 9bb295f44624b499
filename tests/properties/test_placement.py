"""Cycles on random trees, nodes and jobs: what must hold for every one of them."""

import msgspec
from builder import AMOUNTS, NOW, PRIORITIES, candidate, forests, job_row, leaves_of, problem, shape, state
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import Resources
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.constraint import parse_constraints, satisfied
from rankd.core.placement.cycle import NO_NODE_FITS, QUEUE_QUOTA, RESOURCES, run_cycle
from rankd.core.placement.traversal import Traversal
from rankd.core.ranking.queue_forest import roll_up
from rankd.core.ranking.ranking import rank
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

POLICIES = st.sampled_from([Fair(), Binpacking()])
KINDS = ["vcore", "memory", "gpu"]


@st.composite
def nodes(draw, max_size=6):
    drawn = []
    for place in draw(st.permutations(range(draw(st.integers(0, max_size))))):
        capacity = {kind: draw(st.integers(0, 6)) for kind in KINDS if draw(st.booleans())}
        used = {kind: draw(st.integers(0, amount)) for kind, amount in capacity.items() if draw(st.booleans())}
        drawn.append(
            Node(
                name=f"n{place}",
                capacity=capacity,
                used={kind: amount for kind, amount in used.items() if amount},
                labels=draw(st.sampled_from([{}, {"gpu": "a100"}, {"gpu": "h100"}])),
                state=draw(st.sampled_from([NodeState.UP, NodeState.UP, NodeState.UP, *NodeState])),
            )
        )
    return drawn


@st.composite
def shapes(draw):
    asked = draw(st.integers(1, 4))
    resources = {kind: draw(st.integers(1, 4)) for kind in KINDS if draw(st.sampled_from([True, False, False]))}
    return shape(
        nodes=asked,
        min_nodes=draw(st.integers(1, asked)),
        resources=resources or {"vcore": 1},
        constraints=draw(st.sampled_from([None, None, None, "gpu=a100", "!gpu"])),
        exclusive=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def problems(draw, quotas=True):
    """A partition with up to 25 jobs of up to four shapes, usage as its nodes' allocations would leave it."""
    (views,) = draw(forests(max_depth=3, trees=(1,)))
    if quotas:
        limits = st.sampled_from([{}, {}, {"vcore": 3}, {"vcore": 8, "memory": 5}, {"gpu": 0}])
        views = [msgspec.structs.replace(view, maximum=draw(limits)) for view in views]
    known = draw(st.lists(shapes(), min_size=1, max_size=4))
    waiting = {leaf: [] for leaf in leaves_of([views])}
    for job in draw(st.permutations(range(1, draw(st.integers(0, 25)) + 1))):
        jobs = waiting[draw(st.sampled_from(sorted(waiting)))]
        jobs.append((job, draw(st.sampled_from(known)), draw(st.integers(-3, 3))))
    for queue, jobs in waiting.items():
        properties = next(view.properties for view in views if view.id == queue)
        if properties.sort_priority:
            jobs.sort(key=lambda entry: -entry[2])
    used = {leaf: draw(AMOUNTS) for leaf in waiting}
    if quotas:  # nothing is over its maximum before the cycle
        used = {}
    return problem(views, waiting, draw(nodes()), used=roll_up(used, views))


def taken_by(given, outcome):
    """Per node what the placements took of it."""
    taken: dict[str, Resources] = {}
    capacities = {node.name: node.capacity for node in given.nodes}
    for placement in outcome.placements:
        asked = given.shapes[placement.job]
        for name in placement.nodes:
            own = taken.setdefault(name, {})
            for kind, amount in (capacities[name] if asked.exclusive else asked.resources).items():
                own[kind] = own.get(kind, 0) + amount
    return taken


def queue_of(given):
    return {c.job: queue for queue, jobs in given.candidates.items() for c in jobs}


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_no_node_is_ever_over_allocated(given, policy):
    outcome = run_cycle(given, policy)
    taken = taken_by(given, outcome)
    for node in given.nodes:
        for kind, amount in taken.get(node.name, {}).items():
            assert amount + node.used.get(kind, 0) <= node.capacity.get(kind, 0), (node.name, kind)


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_no_queue_ever_uses_more_than_its_maximum(given, policy):
    outcome, queues = run_cycle(given, policy), queue_of(given)
    capacities = {node.name: node.capacity for node in given.nodes}
    used: dict[int, Resources] = {}
    for placement in outcome.placements:
        own, asked = used.setdefault(queues[placement.job], {}), given.shapes[placement.job]
        for name in placement.nodes:
            for kind, amount in (capacities[name] if asked.exclusive else asked.resources).items():
                own[kind] = own.get(kind, 0) + amount
    rolled = roll_up(used, given.queues)
    for view in given.queues:
        for kind, most in view.maximum.items():
            assert rolled[view.id].get(kind, 0) <= most


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_a_placement_is_whole_and_on_nodes_that_may_take_it(given, policy):
    by_name = {node.name: node for node in given.nodes}
    for placement in run_cycle(given, policy).placements:
        asked = given.shapes[placement.job]
        assert asked.min_nodes <= len(placement.nodes) <= asked.nodes
        assert len(set(placement.nodes)) == len(placement.nodes)
        for name in placement.nodes:
            assert by_name[name].state is NodeState.UP
            assert satisfied(parse_constraints(asked.constraints), by_name[name].labels)


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_an_exclusive_job_shares_its_nodes_with_nobody(given, policy):
    outcome = run_cycle(given, policy)
    used_before = {node.name for node in given.nodes if node.used}
    tenants: dict[str, list[int]] = {}
    for placement in outcome.placements:
        for name in placement.nodes:
            tenants.setdefault(name, []).append(placement.job)
    for name, jobs in tenants.items():
        if any(given.shapes[job].exclusive for job in jobs):
            assert len(jobs) == 1
            assert name not in used_before


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_every_job_is_placed_once_or_has_a_reason_for_its_queue_and_shape(given, policy):
    outcome, queues = run_cycle(given, policy), queue_of(given)
    placed = [placement.job for placement in outcome.placements]
    assert len(set(placed)) == len(placed)
    reasons = {(reason.queue, reason.shape): reason.reason for reason in outcome.reasons}
    assert len(reasons) == len(outcome.reasons)
    assert set(reasons.values()) <= {QUEUE_QUOTA, NO_NODE_FITS, RESOURCES}
    for job, queue in queues.items():
        if job not in placed:
            assert (queue, given.shapes[job].key()) in reasons


@given(problems(), POLICIES, st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_neither_chance_nor_the_order_of_rows_decides_anything(given, policy, random):
    def shuffled(items):
        items = list(items)
        random.shuffle(items)
        return items

    turned = msgspec.structs.replace(
        given,
        nodes=shuffled(given.nodes),
        candidates=dict(shuffled(given.candidates.items())),
        shapes=dict(shuffled(given.shapes.items())),
        queues=[given.queues[0], *sorted(given.queues[1:], key=lambda v: (v.path.count("."), random.random()))],
    )
    first = run_cycle(given, policy)
    assert run_cycle(given, policy) == first
    other = run_cycle(turned, policy)
    assert other.placements == first.placements
    assert set(other.reasons) == set(first.reasons)


@given(problems(), POLICIES)
@settings(max_examples=80)
def test_jobs_of_one_leaf_and_shape_start_in_their_order(given, policy):
    placed = [placement.job for placement in run_cycle(given, policy).placements]
    for jobs in given.candidates.values():
        for key in {given.shapes[c.job].key() for c in jobs}:
            ordered = [c.job for c in jobs if given.shapes[c.job].key() == key]
            started = [job for job in placed if job in ordered]
            assert started == ordered[: len(started)]


@given(problems(quotas=False), POLICIES)
@settings(max_examples=80)
def test_no_job_waits_that_the_nodes_left_free_could_hold(given, policy):
    outcome = run_cycle(given, policy)
    taken, placed = taken_by(given, outcome), {placement.job for placement in outcome.placements}
    for job in set(queue_of(given)) - placed:
        asked = given.shapes[job]
        fitting = [node for node in given.nodes if has_room(node, taken.get(node.name, {}), asked)]
        assert len(fitting) < asked.min_nodes


def has_room(node, taken, asked):
    free = {kind: amount - node.used.get(kind, 0) - taken.get(kind, 0) for kind, amount in node.capacity.items()}
    return (
        node.state is NodeState.UP
        and satisfied(parse_constraints(asked.constraints), node.labels)
        and all(free.get(kind, 0) >= amount for kind, amount in asked.resources.items())
        and (not asked.exclusive or not (any(node.used.values()) or any(taken.values())))
    )


@given(problems(quotas=False), POLICIES)
@settings(max_examples=80)
def test_no_node_fits_is_said_of_what_empty_nodes_could_not_hold_and_of_nothing_else(given, policy):
    by_key = {asked.key(): asked for asked in given.shapes.values()}
    for reason in run_cycle(given, policy).reasons:
        asked = by_key[reason.shape]
        able = [node for node in given.nodes if has_room(msgspec.structs.replace(node, used={}), {}, asked)]
        assert reason.reason == (NO_NODE_FITS if len(able) < asked.min_nodes else RESOURCES)


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
@settings(max_examples=80)
def test_as_long_as_nothing_starts_the_traversal_is_the_ranking(drawn):
    views, rows, used, kinds, total = drawn
    given_state = state(*rows, queues=views, used=used, shapes=kinds, totals=[total])
    ranking = rank(given_state, PrioritySettings(policy="class", weights={}), [], NOW)
    by_id = {row.id: row for row in rows}
    waiting: dict[int, list] = {}
    for job in ranking.ids.tolist():
        row = by_id[job]
        asked = candidate(job, shape(resources=kinds[row.shape]), row.class_value)
        waiting.setdefault(row.queue, []).append(asked)
    walked = [c.job for _, c in Traversal(views, waiting, roll_up(used, views), total)]
    assert walked == ranking.ids.tolist()
