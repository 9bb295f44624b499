"""Queue rows and orders: priorities, shares, what is pending; as stated outright, and over several partitions."""

import pytest

FCFS = {"policy": "class"}


def job(id, queue, value=0, **fields):
    return {"id": id, "queue": queue, "class_value": value, **fields}


def leaf(name, **properties):
    return {"name": name, "properties": {key.replace("_", "."): value for key, value in properties.items()}}


def test_queues_are_ordered_by_priority_then_share_then_pending_then_name(decide, tree):
    guaranteed = {"resources": {"guaranteed": {"vcore": 10}}}
    queues = tree(*({"name": name, **guaranteed} for name in ("e", "d", "c", "b", "a")))
    jobs = [
        job(1, "root.a", 1), job(2, "root.b"), job(3, "root.c"), job(4, "root.d", nodes=2), job(5, "root.e"),
    ]  # fmt: skip
    decision = decide(
        jobs=jobs, queues=queues, priority=FCFS, used={"root.b": {"vcore": 5}},
        nodes=[{"name": "n", "capacity": {"vcore": 100}}],
    )  # fmt: skip
    assert decision["queue_order"] == {"root": ["root.a", "root.d", "root.c", "root.e", "root.b"]}
    assert decision.by_path["root.b"]["share"] == 0.5
    assert decision["ranking"] == [1, 4, 3, 5, 2]


def test_where_priority_is_disabled_it_plays_no_part(decide, tree):
    queues = tree(leaf("a"), leaf("b"), application_sort_priority="Disabled")
    jobs = [job(1, "root.a"), job(2, "root.b", 99), job(3, "root.a")]
    decision = decide(jobs=jobs, queues=queues, priority=FCFS)
    assert decision["queue_order"] == {"root": ["root.a", "root.b"]}
    assert decision["ranking"] == [1, 3, 2]
    assert {row["sort_priority"] for row in decision["queues"]} == {"disabled"}  # inherited
    assert decision.by_path["root"]["priority"] == 99


def test_a_row_says_policy_and_offset(decide, tree):
    row = decide(queues=tree(leaf("a", priority_policy="Fence", priority_offset="-7"))).by_path["root.a"]
    assert row == {
        "path": "root.a", "priority": None, "policy": "fence", "offset": -7, "sort_priority": "enabled", "share": 0.0,
        "pending": {},
    }  # fmt: skip


def test_orders_list_only_what_has_pending_work(decide, tree):
    queues = tree(leaf("a"), {"name": "b", "queues": [leaf("x")]}, leaf("c"))
    decision = decide(jobs=[job(1, "root.c")], queues=queues)
    assert decision["queue_order"] == {"root": ["root.c"]}
    assert decision["application_order"] == {"root.c": [1]}


def test_warnings_of_the_queues_are_passed_on(decide, tree):
    warnings = decide(queues=tree(leaf("a", priority_offset="2000000000")))["warnings"]
    assert [warning["code"] for warning in warnings] == ["offset_clamps"]


def test_draining_nodes_count_for_shares_and_lost_ones_do_not(decide):
    nodes = [{"name": s, "state": s, "capacity": {"vcore": 10}} for s in ("up", "draining", "down", "lost")]
    decision = decide(nodes=nodes, used={"root": {"vcore": 5}})
    assert decision.by_path["root"]["share"] == 0.25
    assert [row["name"] for row in decision["node_order"]["default"]] == ["up"]


# --- used and pending ---------------------------------------------------------------------------------------


def test_what_queues_use_is_summed_from_allocations(decide, tree):
    queues = tree({"name": "t", "queues": [leaf("a"), leaf("b")]})
    jobs = [job(1, "root.t.a", state="running"), job(2, "root.t.b", state="allocated")]
    allocations = [
        {"job": 1, "node": "n", "resources": {"vcore": 2}}, {"job": 1, "node": "m", "resources": {"vcore": 1}},
        {"job": 2, "node": "n"},
    ]  # fmt: skip
    nodes = [{"name": name, "capacity": {"vcore": 8}} for name in "nm"]
    decision = decide(jobs=jobs, queues=queues, allocations=allocations, nodes=nodes)
    shares = {path: row["share"] for path, row in decision.by_path.items()}
    assert shares == {"root": 4 / 16, "root.t": 4 / 16, "root.t.a": 3 / 16, "root.t.b": 1 / 16}
    assert decision["node_order"]["default"] == [{"name": "m", "score": 1 / 8}, {"name": "n", "score": 3 / 8}]


@pytest.mark.parametrize(
    ("used", "shares"),
    [
        ({"root.t.a": 3}, {"root": 0.5, "root.t": 0.5, "root.t.a": 0.3, "root.t.b": 0.2}),
        ({"ROOT.T": 9}, {"root": 0.9, "root.t": 0.9, "root.t.a": 0.1, "root.t.b": 0.2}),
        ({"root.t": 1, "root": 4}, {"root": 0.4, "root.t": 0.1, "root.t.a": 0.1, "root.t.b": 0.2}),
        ({"root.t.b": 0}, {"root": 0.1, "root.t": 0.1, "root.t.a": 0.1, "root.t.b": 0.0}),
    ],
)
def test_what_a_queue_uses_may_be_stated_outright(decide, tree, used, shares):
    jobs = [job(1, "root.t.a", state="running"), job(2, "root.t.b", state="running")]
    decision = decide(
        jobs=jobs,
        queues=tree({"name": "t", "queues": [leaf("a"), leaf("b")]}),
        nodes=[{"name": "n", "capacity": {"vcore": 10}}],
        allocations=[{"job": 1, "node": "n"}, {"job": 2, "node": "n", "resources": {"vcore": 2}}],
        used={path: {"vcore": amount} for path, amount in used.items()},
    )
    assert {path: row["share"] for path, row in decision.by_path.items()} == shares


def test_an_exclusive_job_uses_its_nodes_whole(decide):
    jobs = [{"id": 1, "state": "running", "exclusive": True}]
    nodes = [{"name": "n", "capacity": {"vcore": 8}}]
    decision = decide(jobs=jobs, nodes=nodes, allocations=[{"job": 1, "node": "n", "resources": {"vcore": 1}}])
    assert decision.by_path["root.default"]["share"] == 1.0
    assert decision["node_order"]["default"] == [{"name": "n", "score": 1.0}]


def test_a_nodes_use_may_be_stated_outright(decide):
    nodes = [{"name": "n", "capacity": {"vcore": 10, "memory": 10}, "used": {"vcore": 9, "memory": 5}}]
    assert decide(nodes=nodes)["node_order"]["default"] == [{"name": "n", "score": 0.7}]


def test_the_allocation_of_a_rejected_job_keeps_its_node_busy(decide):
    jobs = [{"id": 1, "state": "running", "queue": "root.gone"}]
    nodes = [{"name": "n", "capacity": {"vcore": 2}}]
    decision = decide(jobs=jobs, nodes=nodes, allocations=[{"job": 1, "node": "n"}])
    assert decision["node_order"]["default"] == [{"name": "n", "score": 0.5}]
    assert decision.by_path["root"]["share"] == 0.0


def test_amounts_come_out_as_users_see_them(decide):
    jobs = [job(1, "root.default", nodes=3, resources={"vcore": "500m", "memory": "1Gi", "gpu": 0})]
    assert decide(jobs=jobs).by_path["root"]["pending"] == {"vcore": 1.5, "memory": 3 * 2**30}


def test_what_applications_wait_for_and_use_may_be_stated_outright(decide, tree):
    applications = [
        {"id": "x", "queue": "root.a", "pending": {"vcore": 5}, "used": {"vcore": 2}},
        {"id": "y", "queue": "root.a"},
    ]
    jobs = [job(1, "root.a", application="x"), job(2, "root.a", application="y", nodes=2), job(3, "root.a")]
    decision = decide(
        jobs=jobs, queues=tree(leaf("a"), leaf("b")), applications=applications,
        nodes=[{"name": "n", "capacity": {"vcore": 8}}],
    )  # fmt: skip
    assert decision.by_path["root.a"]["pending"] == {"vcore": 5 + 2 + 1}
    assert decision.by_path["root.a"]["share"] == 0.25


def test_work_that_is_stated_without_jobs_has_a_place_but_no_priority(decide, tree):
    applications = [{"id": "x", "queue": "root.a", "pending": {"vcore": 5}}]
    decision = decide(jobs=[job(1, "root.b", -9)], queues=tree(leaf("a"), leaf("b")), applications=applications)
    assert decision.by_path["root.a"]["priority"] is None
    assert decision["queue_order"] == {"root": ["root.b", "root.a"]}
    assert decision["application_order"] == {"root.a": ["x"], "root.b": [1]}


# --- partitions ---------------------------------------------------------------------------------------------

TWO = {
    "partitions": [
        {"name": "cpu", "queues": [{"name": "root", "queues": [{"name": "a"}]}]},
        {
            "name": "gpu",
            "nodesortpolicy": {"type": "binpacking"},
            "queues": [{"name": "root", "queues": [{"name": "a"}]}],
        },
    ]
}


def test_each_partition_has_its_own_queues_nodes_and_totals(decide):
    nodes = [
        {"name": "c", "capacity": {"vcore": 8}}, {"name": "g", "partition": "gpu", "capacity": {"vcore": 2}},
        {"name": "h", "partition": "gpu", "capacity": {"vcore": 2}, "used": {"vcore": 1}},
    ]  # fmt: skip
    jobs = [job(1, "root.a"), job(2, "root.a", partition="gpu"), job(3, "root.a", 5, partition="gpu")]
    decision = decide(jobs=jobs, nodes=nodes, queues=TWO, priority={"weights": {"size": 1000}})
    assert decision["queue_order"] == {"root": ["root.a"], "gpu:root": ["root.a"]}
    assert decision["application_order"] == {"root.a": [1], "gpu:root.a": [3, 2]}
    assert [(row["partition"], row["path"]) for row in decision["queues"]] == [
        ("cpu", "root"), ("cpu", "root.a"), ("gpu", "root"), ("gpu", "root.a"),
    ]  # fmt: skip
    assert [row["name"] for row in decision["node_order"]["gpu"]] == ["h", "g"]
    assert [decision.factor(id_, "size")["value"] for id_ in (1, 2)] == [(1 + 1 / 8) / 2, (1 / 2 + 1 / 4) / 2]
    assert {row["job"]: row["nodes"] for row in decision["allocations"]} == {1: ["c"], 3: ["h"], 2: ["g"]}


def test_stated_use_is_that_of_the_first_partition(decide):
    nodes = [{"name": p, "partition": p, "capacity": {"vcore": 4}} for p in ("cpu", "gpu")]
    decision = decide(queues=TWO, nodes=nodes, used={"root.a": {"vcore": 1}})
    assert [row["share"] for row in decision["queues"]] == [0.25, 0.25, 0.0, 0.0]


def test_without_any_partition_every_job_is_rejected(decide):
    decision = decide(queues={}, jobs=[{"id": 1}], nodes=[{"name": "n"}])
    assert decision.codes == {1: "unknown_queue"}
    assert decision["node_order"] == {}


@pytest.mark.parametrize(("capacity", "share"), [({"vcore": 4, "gpu": 0}, 1.0), ({"vcore": 4}, 0.0)])
def test_a_type_of_which_the_nodes_have_none_counts_and_one_that_they_do_not_know_is_skipped(
    decide, tree, capacity, share
):
    nodes = [{"name": "n1", "capacity": capacity}]
    decision = decide(queues=tree({"name": "a"}), nodes=nodes, used={"root.a": {"gpu": 1}})
    assert decision.by_path["root.a"]["share"] == share
