"""What starts now on the document's nodes, and the reason of each job that does not."""

CLASS = {"policy": "class"}


def node(name, vcore=4, **fields):
    return {"name": name, "capacity": {"vcore": vcore}, **fields}


def job(id, value=0, vcore=1, **fields):
    return {"id": id, "class_value": value, "resources": {"vcore": vcore}, **fields}


def started(decision):
    return [(row["job"], row["nodes"]) for row in decision["allocations"]]


def test_jobs_start_in_order_on_the_nodes_that_sort_first(decide):
    nodes = [node("a", used={"vcore": 1}), node("b"), node("c", state="draining")]
    decision = decide(jobs=[job(1), job(2, 9, 2)], nodes=nodes, priority=CLASS)
    assert started(decision) == [(2, ["b"]), (1, ["a"])]
    assert [row["reason"] for row in decision["jobs"]] == [None, None]
    assert decision["reservations"] == []


def test_each_job_that_does_not_start_has_its_reason(decide, tree):
    queues = tree({"name": "default"}, {"name": "small", "resources": {"max": {"vcore": 2}}})
    jobs = [
        job(1, 9, 4), job(2, 8, 4), job(3, 7, 5), job(4, held=True), job(5, 6, 2, queue="root.small"),
        job(6, 5, 1, queue="root.small"), job(7, constraints="gpu"),
    ]  # fmt: skip
    decision = decide(jobs=jobs, nodes=[node("a"), node("b", 2)], queues=queues, priority=CLASS)
    assert {id_: row["reason"] for id_, row in decision.by_id.items()} == {
        1: None, 2: "resources", 3: "no node fits", 4: "held", 5: None, 6: "queue quota", 7: "no node fits",
    }  # fmt: skip


def test_without_nodes_no_node_fits(decide):
    assert decide(jobs=[job(1)]).reason(1) == "no node fits"


def test_what_runs_takes_up_room_and_quota(decide, tree):
    queues = tree({"name": "default", "resources": {"max": {"vcore": 3}}})
    jobs = [job(1, state="running"), job(2, 1, 3), job(3, 0, 2)]
    decision = decide(
        jobs=jobs, nodes=[node("a")], queues=queues, allocations=[{"job": 1, "node": "a"}], priority=CLASS
    )
    assert decision.reason(2) == "queue quota"
    assert started(decision) == [(3, ["a"])]


def test_nodes_of_a_partition_that_is_not_there_are_warned_about(decide):
    decision = decide(jobs=[job(1)], nodes=[node("a", partition="gone")])
    assert started(decision) == []
    assert [(row["code"], "gone" in row["message"]) for row in decision["warnings"]] == [("unknown_partition", True)]
