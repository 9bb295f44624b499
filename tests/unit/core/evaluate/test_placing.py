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


DEVICES = [
    {"model": "a100", "id": "g0", "index": 0},
    {"model": "a100", "id": "g1", "index": 1},
    {"type": "gpu", "model": "v100", "id": "g2", "index": 2, "group": 1, "state": "ok"},
    {"model": "v100", "id": "g3", "index": 3, "group": 1, "state": "taken"},
]
LAB = node("lab", 8, devices=DEVICES)


def gpu_job(id, value=0, **resources):
    return job(id, value, resources={"vcore": 1, **resources}, user="ann")


def devices_of(decision):
    return {row["job"]: row.get("devices") for row in decision["allocations"]}


def test_jobs_get_devices_that_no_open_allocation_holds(decide):
    running = {"id": "r", "state": "running", "resources": {"vcore": 1, "gpu": 1}}
    held = {"job": "r", "node": "lab", "devices": {"lab": ["g0"]}}
    jobs = [running, gpu_job(1, 9, gpu=1), gpu_job(2, 8, gpu=1), gpu_job(3, 7, **{"gpu:a100": 1}), gpu_job(4, 6)]
    decision = decide(jobs=jobs, nodes=[LAB], allocations=[held], priority=CLASS)
    assert devices_of(decision) == {1: {"lab": ["g1"]}, 2: {"lab": ["g2"]}, 4: None}
    assert decision.reason(3) == "resources"


def test_the_cheapest_model_is_given_to_a_job_that_names_none(decide):
    prices = {"billing": {"vcore": 1.0, "gpu": 16.0, "gpu:v100": 4.0}}
    decision = decide(jobs=[gpu_job(1, gpu=1)], nodes=[LAB], priority={**CLASS, "fairshare": prices})
    assert devices_of(decision) == {1: {"lab": ["g2"]}}


def test_an_exclusive_job_gets_all_free_devices(decide):
    decision = decide(jobs=[job(1, exclusive=True)], nodes=[LAB], priority=CLASS)
    assert devices_of(decision) == {1: {"lab": ["g0", "g1", "g2"]}}


def test_a_node_without_devices_counts_gpus_and_gives_no_ids(decide):
    counted = {"name": "old", "capacity": {"vcore": 8, "gpu": 4}}
    assert devices_of(decide(jobs=[gpu_job(1, gpu=2)], nodes=[counted], priority=CLASS)) == {1: None}


def test_a_quota_of_a_model_counts_the_devices_that_jobs_get(decide, tree):
    queues = tree({"name": "default", "resources": {"max": {"gpu:a100": 1}}})
    jobs = [gpu_job(1, 9, gpu=1), gpu_job(2, 8, gpu=1)]
    decision = decide(jobs=jobs, nodes=[LAB], queues=queues, priority=CLASS)
    assert devices_of(decision) == {1: {"lab": ["g0"]}}
    assert decision.reason(2) == "queue quota", "the rule chooses another a100"


def test_a_quota_of_gpus_counts_all_models(decide, tree):
    queues = tree({"name": "default", "resources": {"max": {"gpu": 1}}})
    jobs = [gpu_job(1, 9, **{"gpu:v100": 1}), gpu_job(2, 8, **{"gpu:a100": 1})]
    decision = decide(jobs=jobs, nodes=[LAB], queues=queues, priority=CLASS)
    assert devices_of(decision) == {1: {"lab": ["g2"]}}
    assert decision.reason(2) == "queue quota"


def test_gpu_beside_a_model_and_parts_of_a_gpu_are_refused(decide):
    jobs = [gpu_job(1, gpu=1, **{"gpu:a100": 1}), gpu_job(2, gpu=0.5)]
    assert decide(jobs=jobs, nodes=[LAB], priority=CLASS).codes == {1: "bad_resources", 2: "bad_resources"}


def test_a_device_that_no_node_has_is_warned_about(decide):
    failed = {"model": "v100", "id": "g1", "index": 1, "state": "failed"}
    nodes = [node("n1", devices=[{"model": "a100", "id": "g0", "index": 0}, failed])]
    asked = [{"gpu": 1}, {"gpu:a100": 1}, {"gpu:v100": 1}, {"gpu:a10": 1}]
    jobs = [{"id": number, "resources": amounts} for number, amounts in enumerate(asked, start=1)]
    [warning] = decide(jobs=jobs, nodes=nodes, priority=CLASS)["warnings"]
    assert warning["code"] == "unknown_resource"
    assert "no node has gpu:a10, for which job '4' asks" in warning["message"]
    assert "takes such a job only if a node had gpu:a10 before, or a queue names it" in warning["message"]
    assert decide(jobs=jobs, nodes=[], priority=CLASS)["warnings"] == []


def test_a_drained_device_is_given_to_no_job(decide):
    devices = [{"model": "a100", "id": "g0", "index": 0, "state": "drained"}, {"model": "a100", "id": "g1", "index": 1}]
    jobs = [{"id": number, "resources": {"gpu": 1}} for number in (1, 2)]
    decision = decide(jobs=jobs, nodes=[node("n1", devices=devices)], priority=CLASS)
    assert [row["devices"] for row in decision["allocations"]] == [{"n1": ["g1"]}]
