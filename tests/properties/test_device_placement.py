"""Cycles with devices: who gets which one, and that devices decide nothing else."""

import math
import random

import builder
import msgspec
from builder import NOW, views
from device_reference import MODELS, slow
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from placement_problem import random_problem

from rankd.core.model.device import Device, DeviceState, in_order, is_device_kind, kind_of, offered, with_models
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.device_table import asked_devices
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import Hold
from rankd.core.placement.request import Shape
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

POLICIES = {"fair": Fair(), "binpacking": Binpacking()}
SEEDS = st.integers(0, 2**40)
PRICES = [{}, {"gpu": 16.0}, {"gpu": 16.0, "gpu:v100": 4.0}, {"gpu:a100": 1.0, "gpu:h100": 2.0}]
replace = msgspec.structs.replace


def cycle(problem):
    return run_cycle(problem, POLICIES[problem.node_sort.type])


def without_applications(problem):
    """The same problem, where the usage of applications decides nothing: it counts each model, too."""
    waiting = {queue: replace(jobs, applications=None) for queue, jobs in problem.waiting.items()}
    return replace(problem, waiting=waiting)


def with_devices(problem, chance):
    """The same nodes with as many devices as they count GPUs; what ran there holds some of them.

    ``chance`` None: all of one model and one group. Else there are several, some of them taken or failed.
    """
    nodes, holds = [], []
    for node in problem.nodes:
        devices = random_devices(chance, node.capacity.get("gpu", 0))
        free = [device for device in devices if device.state is not DeviceState.TAKEN]
        own = []
        for hold in (hold for hold in problem.holds if hold.node == node.name):
            number = len(free) if hold.exclusive else min(len(free), hold.resources.get("gpu", 0))
            held = in_order(free.pop(0) for _ in range(number))
            amounts = with_models(hold.resources, [device.model for device in held])
            own.append(replace(hold, resources=amounts, devices=tuple(device.id for device in held)))
        used = {kind: amount for kind, amount in node.used.items() if not is_device_kind(kind)}
        nodes.append(replace(node, capacity=offered(node.capacity, devices), used=used, devices=tuple(devices)))
        holds += own
    return replace(problem, nodes=nodes, holds=holds)


def random_devices(chance, number):
    if chance is None:
        return [Device(model="a100", id=f"g{at}", index=at) for at in range(number)]
    states = [DeviceState.OK] * 6 + list(DeviceState)
    return [
        Device(
            model=chance.choice(MODELS),
            id=f"g{at}",
            index=at,
            group=chance.randint(0, 2),
            state=chance.choice(states),
        )
        for at in chance.sample(range(number), number)
    ]


def with_named_models(problem, chance):
    """Some of the shapes name models."""
    kinds, shapes = [], {}
    for kind in problem.kinds.kinds:
        key = kind.shape.key()
        if key not in shapes:
            number, amounts = kind.shape.resources.get("gpu", 0), kind.shape.resources
            if number and chance.random() < 0.5:
                amounts = with_models(amounts, [chance.choice(MODELS) for _ in range(number)])
            shapes[key] = replace(kind.shape, resources=amounts)
        kinds.append(replace(kind, shape=shapes[key]))
    return replace(problem, kinds=KindTable(kinds), billing=chance.choice(PRICES))


def mixed_problem(seed):
    chance = random.Random(seed)
    problem = with_named_models(with_devices(random_problem(chance), chance), chance)
    if chance.random() < 0.3:
        queues = [
            replace(view, maximum=view.maximum | ({kind_of(chance.choice(MODELS)): chance.randint(0, 4)}))
            for view in problem.queues
        ]
        problem = replace(problem, queues=queues)
    return problem


def shapes_by_job(problem):
    return {
        job: problem.kinds[kind]
        for waiting in problem.waiting.values()
        for job, kind in zip(waiting.jobs.tolist(), waiting.kinds.tolist(), strict=True)
    }


@given(SEEDS)
@settings(max_examples=200)
def test_devices_of_one_model_decide_as_plain_amounts_do(seed):
    plain = without_applications(random_problem(random.Random(seed)))
    capacities = {node.name: node.capacity.get("gpu", 0) for node in plain.nodes}
    for name, most in capacities.items():
        assume(sum(hold.resources.get("gpu", 0) for hold in plain.holds if hold.node == name) <= most)
    listed, outcome = with_devices(plain, None), cycle(plain)
    found = cycle(listed)
    assert [(p.job, p.nodes) for p in found.placements] == [(p.job, p.nodes) for p in outcome.placements]
    assert found.reservations == outcome.reservations
    assert {job: r.reason for job, r in found.by_job.items()} == {job: r.reason for job, r in outcome.by_job.items()}


def held_by_node(problem):
    held = {node.name: set() for node in problem.nodes}
    for hold in problem.holds:
        held[hold.node].update(hold.devices)
    return held


@given(SEEDS)
@settings(max_examples=300)
def test_each_job_gets_the_devices_that_the_slow_reference_chooses(seed):
    check_choices(mixed_problem(seed))


@given(SEEDS)
@settings(max_examples=150)
def test_nodes_that_come_back_with_fewer_devices_give_none_of_a_running_job_away(seed):
    """The jobs on the devices that are left keep them. The others are chosen as if there had never been more."""
    chance, problem = random.Random(seed), mixed_problem(seed)
    nodes = []
    for node in problem.nodes:
        kept = [device for device in node.devices if chance.random() < 0.6] or list(node.devices[:1])
        others = {kind: amount for kind, amount in node.capacity.items() if not is_device_kind(kind)}
        nodes.append(replace(node, devices=tuple(kept), capacity=offered(others, kept)))
    assume(any(len(new.devices) < len(old.devices) for new, old in zip(nodes, problem.nodes, strict=True)))
    check_choices(replace(problem, nodes=nodes))


def check_choices(problem):
    """Each placement has the devices that the slow reference chooses of those that nothing holds."""
    shapes, nodes, held = shapes_by_job(problem), {node.name: node for node in problem.nodes}, held_by_node(problem)
    prices = {model: problem.billing.get(kind_of(model), problem.billing.get("gpu", 0.0)) for model in MODELS}
    for placement in cycle(problem).placements:
        shape = shapes[placement.job].shape
        for name in placement.nodes:
            devices = in_order(nodes[name].devices)
            free = frozenset(
                place
                for place, device in enumerate(devices)
                if device.state is DeviceState.OK and device.id not in held[name]
            )
            asked = asked_devices(shape.resources)
            wanted = sorted(free) if shape.exclusive else slow(devices, free, prices, asked) if asked else ()
            assert placement.devices.get(name, ()) == tuple(devices[place].id for place in wanted or ())
            assert wanted is not None
            held[name].update(placement.devices.get(name, ()))


@given(SEEDS)
@settings(max_examples=150)
def test_no_device_is_ever_in_two_open_allocations(seed):
    """Several cycles, each with what the last one started; between them some jobs end, and devices come and go."""
    chance, problem = random.Random(seed), mixed_problem(seed)
    for _ in range(4):
        shapes = shapes_by_job(problem)
        nodes = {node.name: node for node in problem.nodes}
        new = []
        for placement in cycle(problem).placements:
            job_kind = shapes[placement.job]
            for name in placement.nodes:
                ids = placement.devices.get(name, ())
                models = {device.id: device.model for device in nodes[name].devices}
                amounts = nodes[name].capacity if job_kind.shape.exclusive else job_kind.shape.resources
                amounts = with_models(amounts, [models[id_] for id_ in ids]) if ids else amounts
                new.append((name, amounts, job_kind, ids))
        started = [
            Hold(
                node=name,
                resources=amounts,
                exclusive=job_kind.shape.exclusive,
                devices=ids,
                ends_at=problem.now + (math.inf if job_kind.time_limit_s is None else job_kind.time_limit_s),
            )
            for name, amounts, job_kind, ids in new
        ]
        holds = [*problem.holds, *started]
        for name in nodes:
            listed = [id_ for hold in holds if hold.node == name for id_ in hold.devices]
            assert len(listed) == len(set(listed))
        holds = [hold for hold in holds if chance.random() < 0.7]
        changed = []
        for node in problem.nodes:
            states = [replace(one, state=chance.choice([one.state, *DeviceState])) for one in node.devices]
            kept = [device for device in states if chance.random() < 0.9]
            used = {}
            for hold in holds:
                for kind_, amount in hold.resources.items():
                    if hold.node == node.name and not is_device_kind(kind_):
                        used[kind_] = used.get(kind_, 0) + amount
            capacity = {kind_: amount for kind_, amount in node.capacity.items() if not is_device_kind(kind_)}
            changed.append(replace(node, devices=tuple(kept), capacity=offered(capacity, kept), used=used))
        problem = replace(problem, holds=holds, nodes=changed)


@given(SEEDS)
@settings(max_examples=200)
def test_passing_whole_kinds_decides_the_same_as_looking_at_each_job(seed):
    problem = mixed_problem(seed)
    each, together = cycle(problem), cycle(replace(problem, each=False))
    assert together.placements == each.placements
    assert together.reservations == each.reservations


def crowded_problem(seed):
    """Jobs that ask for devices only, more than there are, on two nodes; all that wait may get reservations."""
    chance, nodes, holds = random.Random(seed), [], []
    for name in ("n1", "n2"):
        devices = [
            Device(model=chance.choice(MODELS[:2]), id=f"g{at}", index=at, group=at // 2)
            for at in range(chance.randint(2, 5))
        ]
        nodes.append(builder.node(name, devices=tuple(devices), capacity=offered({}, devices)))
        for device in chance.sample(devices, chance.randint(0, len(devices) - 1)):
            ends_at = NOW + chance.choice([1.0, 2.0, 4.0, math.inf])
            holds.append(
                Hold(node=name, resources=with_models({}, [device.model]), devices=(device.id,), ends_at=ends_at)
            )
    jobs = []
    for id_ in range(1, chance.randint(3, 9)):
        number = chance.randint(1, 3)
        amounts = chance.choice([{"gpu": number}, with_models({}, [chance.choice(MODELS[:2])] * number)])
        asked = Shape(partition="default", resources=amounts)
        jobs.append((id_, builder.kind(asked, time_limit_s=chance.choice([1.0, 3.0, 10.0])), 0))
    queues = views(("root", {}), ("root.a", {}))
    return builder.problem(queues, {1: jobs}, nodes, holds=holds, backfill="conservative", each=True)


@given(st.one_of(SEEDS.map(mixed_problem), SEEDS.map(crowded_problem)))
@settings(max_examples=500)
def test_no_start_takes_what_is_reserved(problem):
    """When a reservation begins, its amounts are there: of all devices, and of each model."""
    assume(not any(hold.exclusive for hold in problem.holds))
    kinds, outcome = shapes_by_job(problem), cycle(problem)
    nodes = {node.name: node for node in problem.nodes}
    models = {name: {device.id: device.model for device in node.devices} for name, node in nodes.items()}
    ok = {name: {d.id for d in node.devices if d.state is DeviceState.OK} for name, node in nodes.items()}
    items = [
        (hold.node, max(hold.ends_at, problem.now), -math.inf, ok[hold.node].intersection(hold.devices), None)
        for hold in problem.holds
    ]
    for placement in outcome.placements:
        limit = kinds[placement.job].time_limit_s
        end = math.inf if limit is None else problem.now + limit
        items += [(name, end, problem.now, set(placement.devices.get(name, ())), None) for name in placement.nodes]
    for made in outcome.reservations:
        job_kind = kinds[made.job]
        if job_kind.shape.exclusive:
            continue
        end = math.inf if job_kind.time_limit_s is None else made.starts_at + job_kind.time_limit_s
        items += [(name, end, made.starts_at, set(), job_kind.shape.resources) for name in made.nodes]
    for made in outcome.reservations:
        for name in made.nodes:
            there = [item for item in items if item[0] == name and item[2] <= made.starts_at < item[1]]
            for kind_ in ("gpu", *map(kind_of, MODELS)):
                own = {id_ for id_ in ok[name] if kind_ in ("gpu", kind_of(models[name][id_]))}
                held = sum(len(own.intersection(ids)) for _, _, _, ids, amounts in there if amounts is None)
                promised = sum(amounts.get(kind_, 0) for *_, amounts in there if amounts is not None)
                assert held + promised <= len(own)
