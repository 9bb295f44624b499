"""Random small problems for a scheduling cycle, with everything in them that the format has."""

import math

import numpy as np
from builder import NOW, view

from rankd.core.model.node import Node, NodeState
from rankd.core.model.queue import Limit, NodeSort
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import Hold, PartitionProblem, Tenant, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import roll_up

TYPES = ("vcore", "memory", "gpu")
LIMITS = (None, 1.0, 2.0, 2.5, 4.0, 7.0, 0.1)
USERS = ("", "alice", "bob", "carol")
GROUPS = ((), ("g",), ("h",), ("g", "h"), ("i",))


def random_problem(random, *, policies=("fair", "binpacking")):
    """A partition with up to 20 jobs."""
    queues = random_tree(random)
    parents = {v.parent for v in queues}
    leaves = [v for v in queues if v.id not in parents and v.parent is not None]
    nodes, holds = random_nodes(random)
    n_applications = random.randint(0, 4)
    of_leaf = [random.choice(leaves).id for _ in range(n_applications)]
    tenants = random_tenants(random, holds, leaves, of_leaf)
    used, by_application = {}, {}
    for tenant in tenants:
        add(used.setdefault(tenant.queue, {}), tenant.amount)
        if tenant.application != NO_GROUP:
            add(by_application.setdefault(tenant.application, {}), tenant.amount)
    kinds, waiting = [], {}
    ids = random.sample(range(1, 100), random.randint(0, 20))
    shapes = [random_shape(random) for _ in range(random.randint(1, 4))]
    for leaf in leaves:
        own = [ids.pop() for _ in range(random.randint(0, len(ids)))] if leaf is not leaves[-1] else ids
        if own:
            waiting[leaf.id] = random_waiting(random, leaf, own, kinds, shapes, of_leaf)
    places = list(range(n_applications))
    random.shuffle(places)
    return PartitionProblem(
        now=NOW,
        queues=queues,
        waiting=waiting,
        kinds=KindTable(kinds),
        used=roll_up(used, queues),
        nodes=nodes,
        holds=holds,
        tenants=tenants,
        applications=Applications(
            created_at=np.array([NOW - random.choice([0, 1, 2]) for _ in places], dtype=np.float64),
            id_places=np.array(places, dtype=np.int64),
            queues=np.array(of_leaf, dtype=np.int64),
            used=by_application,
        ),
        node_sort=NodeSort(
            type=random.choice(policies),
            resourceweights=random.choice([{"vcore": 1.0, "memory": 1.0}, {"gpu": 2.0, "vcore": 1.0}, {}]),
        ),
        backfill=(backfill := random.choice(["easy", "easy", "conservative", "none", "strict"])),
        backfill_order=random.choice(["rank", "shortest"]) if backfill == "easy" else "rank",
        reserve_depth=random.choice([1, 1, 2, 5]),
        each=True,
    )


def add(total, amount):
    for kind, value in amount.items():
        total[kind] = total.get(kind, 0) + value


def random_amounts(random, most=4, chance=0.5):
    return {kind: random.randint(1, most) for kind in TYPES if random.random() < chance}


def random_tree(random):
    queues = []

    def grow(path, parent, depth):
        id_ = len(queues)
        limits = []
        if random.random() < 0.08:
            limits = random_limits(random)
        queues.append(
            view(
                id_, path, parent,
                guaranteed=random_amounts(random, 8, 0.3),
                effective_max=random_amounts(random, 20, 0.3),
                maximum=random_amounts(random, 16, 0.4) if parent is not None and random.random() < 0.2 else {},
                maxapplications=random.choice([0] * 16 + [1, 2, 3]),
                limits=limits,
                priority_policy=random.choice(["default", "default", "default", "fence"]),
                priority_offset=random.choice([0, 0, 0, 1, -2, 2**31 - 1]),
                sort_priority=random.random() < 0.7,
                sort_policy=random.choice(["fifo", "fair", "busiest"]),
            )
        )  # fmt: skip
        if depth < 3:
            for name in "abc"[: random.randint(0 if depth else 1, 3)]:
                grow(f"{path}.{name}", id_, depth + 1)

    grow("root", None, 0)
    return queues


def random_limits(random):
    fields = [("users", name) for name in ("alice", "bob", "*")] + [("groups", name) for name in ("g", "h", "*")]
    chosen = [field for field in fields if random.random() < 0.5]
    return [
        Limit(
            **{what: (name,)},
            maxresources=random_amounts(random, 8, 0.5),
            maxapplications=random.choice([0, 0, 1, 2]),
        )
        for what, name in chosen
    ]


def random_nodes(random):
    """Nodes in any order, and what runs on them; some have shrunk, some state more use than that."""
    nodes, holds = [], []
    for place in random.sample(range(7), random.randint(0, 6)):
        capacity = {kind: random.randint(0, 10) for kind in TYPES if random.random() < 0.9}
        used = {}
        for _ in range(random.choice([0, 0, 1, 1, 2])):
            exclusive = not used and random.random() < 0.15
            resources = capacity if exclusive else {k: random.randint(0, max(0, v - 1)) for k, v in capacity.items()}
            fits = all(used.get(k, 0) + v <= capacity.get(k, 0) for k, v in resources.items())
            if fits or random.random() < 0.1:
                ends_at = NOW + random.choice([-3.0, 0.0, 1.0, 2.0, 3.5, 5.0, math.inf])
                hold = Hold(node=f"n{place}", resources=resources, exclusive=exclusive, ends_at=ends_at)
                holds.append(hold)
                add(used, resources)
                if exclusive:
                    break
        if random.random() < 0.1:
            add(used, {"vcore": 1})
        nodes.append(
            Node(
                name=f"n{place}",
                capacity=capacity,
                used=used,
                labels=random.choice([{}, {"gpu": "a100"}, {"gpu": "h100"}]),
                state=random.choice([NodeState.UP] * 8 + list(NodeState)),
            )
        )
    return nodes, holds


def random_tenants(random, holds, leaves, of_leaf):
    tenants = []
    for hold in holds:
        leaf = random.choice(leaves)
        own = [place for place, queue in enumerate(of_leaf) if queue == leaf.id]
        tenants.append(
            Tenant(
                queue=leaf.id,
                amount=hold.resources,
                user=random.choice(USERS),
                groups=random.choice(GROUPS),
                application=random.choice([NO_GROUP, *own]),
            )
        )
    return tenants


NAMED = ("rankd/node in (n0,n1,n2)", "rankd/node notin (n0,n3),!gpu")


def random_shape(random):
    nodes = random.choice([1, 1, 1, 2, 3])
    return Shape(
        partition="default",
        nodes=nodes,
        min_nodes=random.randint(1, nodes),
        resources=random_amounts(random, 3, 0.35) or random.choice([{}, {"vcore": 1}]),
        constraints=random.choice([None] * 5 + ["gpu=a100", "!gpu", *NAMED]),
        exclusive=random.random() < 0.15,
    )


def random_waiting(random, leaf, ids, kinds, shapes, of_leaf):
    """Jobs in the order that the ranking gives them inside a leaf."""
    own = [place for place, queue in enumerate(of_leaf) if queue == leaf.id]
    jobs = [
        (id_, random.randint(-3, 3), random.choice([NO_GROUP, *own]), NOW - random.choice([0.0, 1.0, 2.0]))
        for id_ in ids
    ]
    enabled = leaf.properties.sort_priority
    jobs.sort(key=lambda job: (-job[1] if enabled or job[2] != NO_GROUP else 0, job[3], job[0]))
    listed, places = [], []
    for job in jobs:
        kind = Kind(
            shape=random.choice(shapes),
            time_limit_s=random.choice(LIMITS),
            user=random.choice(USERS),
            groups=random.choice(GROUPS),
            application=job[2],
        )
        if kind not in kinds:
            kinds.append(kind)
        listed.append(job)
        places.append(kinds.index(kind))
    return WaitingJobs(
        jobs=np.array([job[0] for job in listed], dtype=np.int64),
        priorities=np.array([job[1] for job in listed], dtype=np.int64),
        kinds=np.array(places, dtype=np.int64),
        applications=np.array([job[2] for job in listed], dtype=np.int64),
        submitted_at=np.array([job[3] for job in listed], dtype=np.float64),
    )
