"""Worked examples of the design texts that rankd follows."""

import pytest

# Flux, "Job Priority Plugin Design" (2017): the table of sprio. JOBID, USER, PRIORITY, then the points. Slurm shows
# them rounded one by one, so two rows do not add up there; unrounded they do, here with 0.3 less than is shown.
SPRIO = """
6253241 billybob 1294572 7027 271920 15625 0 1000000 0
6266688 billybob 1277696  568 271920  5208 0 1000000 0
6266856   marsha 1485389  508 469256 15625 0 1000000 0
6266918   arnold 1276426  474.7 272696.7  3254.7 0 1000000 0
6267641    tammy 1297931  225.7 294450.7  3254.7 0 1000000 0
6267677      sue 1553224  205 532186 20833 0 1000000 0
"""
COLUMNS = ("age", "fairshare", "size", "queue", "qos", "user")
WEIGHT = 2**20
"""A power of two, so that points divided by it and multiplied again are the same."""


def test_the_table_of_the_flux_design_adds_up(decide):
    rows = [line.split() for line in SPRIO.split("\n") if line]
    jobs = [
        {"id": int(id_), "factors": dict(zip(COLUMNS, (float(part) / WEIGHT for part in points), strict=True))}
        for id_, _, _, *points in rows
    ]
    decision = decide(jobs=jobs, priority={"weights": dict.fromkeys(COLUMNS, WEIGHT)})
    assert {id_: row["priority"] for id_, row in decision.by_id.items()} == {int(row[0]): int(row[2]) for row in rows}
    assert decision["ranking"] == [6267677, 6266856, 6267641, 6253241, 6266688, 6266918]


# Apache YuniKorn, "Priority Scheduling": tenants under fences, with a fence inside one of them.
TENANTS = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "queues": [
                        {"name": "system"},
                        {
                            "name": "tenant1",
                            "properties": {"priority.policy": "fence"},
                            "queues": [
                                {"name": "A", "properties": {"priority.policy": "fence"}},
                                {"name": "B"},
                            ],
                        },
                        {
                            "name": "tenant2",
                            "properties": {"priority.policy": "fence"},
                            "queues": [{"name": "one"}, {"name": "two"}],
                        },
                    ],
                }
            ],
        }
    ]
}


def tenants(decide, **values):
    """Jobs named by their queue, each with a class value."""
    paths = {
        "A": "root.tenant1.A", "B": "root.tenant1.B", "one": "root.tenant2.one", "two": "root.tenant2.two",
        "system": "root.system",
    }  # fmt: skip
    jobs = [{"id": name, "queue": paths[name], "class_value": value} for name, value in values.items()]
    return decide(jobs=jobs, queues=TENANTS, priority={"policy": "class"})


def test_a_fenced_queue_shows_the_default_priority(decide):
    decision = tenants(decide, A=1000, B=5, one=700, two=900, system=1)
    shown = {path: row["priority"] for path, row in decision.by_path.items()}
    assert shown == {
        "root": 1, "root.system": 1, "root.tenant1": 0, "root.tenant1.A": 0, "root.tenant1.B": 5, "root.tenant2": 0,
        "root.tenant2.one": 700, "root.tenant2.two": 900,
    }  # fmt: skip


def test_no_tenants_job_goes_before_the_system_queues(decide):
    assert tenants(decide, A=10**9, B=10**9, one=10**9, two=10**9, system=1)["ranking"][0] == "system"
    assert tenants(decide, A=5, one=5, system=-1)["ranking"][-1] == "system"


def test_inside_a_tenant_the_unfenced_queue_may_go_before_the_fenced_one_and_not_the_other_way(decide):
    assert tenants(decide, A=1000, B=1)["ranking"] == ["B", "A"]
    assert tenants(decide, A=1000, B=-1)["ranking"] == ["A", "B"]


def test_inside_a_tenant_priorities_of_unfenced_queues_see_each_other(decide):
    decision = tenants(decide, one=1, two=2)
    assert decision["ranking"] == ["two", "one"]
    assert decision["queue_order"] == {
        "root": ["root.tenant2"],
        "root.tenant2": ["root.tenant2.two", "root.tenant2.one"],
    }


def test_tenants_do_not_see_each_others_priorities(decide):
    order = tenants(decide, A=1, B=1, one=10**9, two=10**9)["queue_order"]["root"]
    assert order == ["root.tenant1", "root.tenant2"]  # equal, hence by name


@pytest.mark.parametrize(
    ("offsets", "shown"),
    [
        (("10", "100"), 115),  # offsets add up on the way
        (("2147483647", "0"), 2147483647),
        (("-2147483648", "0"), -2147483643),
        (("2147483648", "x"), 5),  # neither is an int32: 0
    ],
)
def test_offsets_are_added_on_the_way_up_and_clamped(decide, tree, offsets, shown):
    inner, outer = ({"priority.offset": offset} for offset in offsets)
    queues = tree({"name": "p", "properties": outer, "queues": [{"name": "q", "properties": inner}]})
    jobs = [{"id": 1, "queue": "root.p.q", "class_value": 5}]
    assert decide(jobs=jobs, queues=queues, priority={"policy": "class"}).by_path["root"]["priority"] == shown


# Kubernetes, "Priority in Kubernetes API" (2017): the running system's values of the built-in classes.
@pytest.mark.parametrize(
    ("name", "value"), [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
)
def test_system_classes_have_their_values(decide, name, value):
    job = {"id": 1, "priority_class": name, "privileged": True}
    assert decide(jobs=[job], priority={"policy": "class"}).by_id[1]["priority"] == value


# Apache YuniKorn's user guide, "App & Queue Priorities": its example of many tenants, drained one task at a time.
MANY_TENANTS = {
    "system": {"system-normal": 0, "system-high": 1000, "system-low": -1000},
    "tenants": {"tenant-a": ("child-a-1", "child-a-2"), "tenant-b": ("child-b-1", "child-b-2")},
}
TASKS = [
    ("root.system.system-high", 1),
    ("root.system.system-normal", 10),
    ("root.system.system-normal", 2),
    ("root.tenants.tenant-a.child-a-1", 8),
    ("root.tenants.tenant-a.child-a-2", 6),
    ("root.tenants.tenant-a.child-a-1", 5),
    ("root.tenants.tenant-a.child-a-2", 4),
    ("root.tenants.tenant-b.child-b-1", 9),
    ("root.tenants.tenant-b.child-b-2", 8),
    ("root.tenants.tenant-b.child-b-1", 7),
    ("root.system.system-low", 3),
]
"""In the order of its table."""
RESULTS = [
    {"system-high": None, "system": 10},
    {"system-normal": 2, "system": 2},
    {"system-normal": None, "system": -997},
    {"child-a-1": 5},
    {"child-a-2": 4},
    {"child-a-1": None},
    {"child-a-2": None, "tenant-a": None},
    {"child-b-1": 7},
    {"child-b-2": None},
    {"child-b-1": None, "tenant-b": None, "tenants": None},
    {"system-low": None, "system": None},
]
BEFORE = {
    "system": 1001, "system-normal": 10, "system-high": 1001, "system-low": -997, "tenants": 0, "tenant-a": 10,
    "child-a-1": 8, "child-a-2": 6, "tenant-b": 0, "child-b-1": 9, "child-b-2": 8,
}  # fmt: skip


def many_tenants(tree):
    def fenced(name, offset, children):
        properties = {"priority.policy": "fence", **({} if offset is None else {"priority.offset": offset})}
        return {"name": name, "properties": properties, "queues": children}

    system = [{"name": name, "properties": {"priority.offset": str(o)}} for name, o in MANY_TENANTS["system"].items()]
    tenants = [
        fenced(name, offset, [{"name": child} for child in MANY_TENANTS["tenants"][name]])
        for name, offset in (("tenant-a", "10"), ("tenant-b", "0"))
    ]
    return tree({"name": "system", "queues": system}, fenced("tenants", None, tenants))


def test_the_published_walk_through_of_many_tenants_drains_in_its_order(decide, tree):
    jobs = [{"id": place, "queue": queue, "class_value": value} for place, (queue, value) in enumerate(TASKS)]
    jobs.sort(key=lambda job: job["class_value"])  # the submission order says nothing
    shown = BEFORE
    for step in range(len(TASKS) + 1):
        left = [job for job in jobs if job["id"] >= step]
        decision = decide(jobs=left, queues=many_tenants(tree), priority={"policy": "class"})
        assert decision["ranking"] == list(range(step, len(TASKS)))
        priorities = {path.rpartition(".")[2]: row["priority"] for path, row in decision.by_path.items()}
        assert {name: priorities[name] for name in shown} == shown
        shown = shown | RESULTS[step] if step < len(TASKS) else shown
    assert set(shown.values()) == {None}


def test_a_leaf_with_an_offset_of_5_shows_25_and_then_15(decide, tree):
    queues = tree({"name": "a", "properties": {"priority.offset": "5"}})
    jobs = [{"id": value, "queue": "root.a", "class_value": value, "application": f"app-{value}"} for value in (10, 20)]
    for left, shown in ((jobs, 25), (jobs[:1], 15)):
        decision = decide(jobs=left, queues=queues, priority={"policy": "class"})
        assert decision.by_path["root.a"]["priority"] == shown
