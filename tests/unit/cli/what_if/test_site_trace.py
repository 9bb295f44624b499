import pytest

from rankd.cli.what_if.site_trace import ended_since, nodes_of, period_s, record
from rankd.core.errors import Refused
from rankd.core.simulate.trace import Selection, over, select

ROW = {
    "id": 17,
    "array_job": None,
    "array_task": None,
    "cores": 4.0,
    "submitted_at": 100.0,
    "started_at": 130.0,
    "ended_at": 190.0,
    "time_limit_s": 600,
    "allocated": None,
    "user": "ada",
    "account": "physics",
    "queue": "root.gpu",
    "partition": "default",
    "nodelist": "n[1-2]",
}


def test_a_record_has_the_times_and_the_size_of_its_last_run():
    job = record(ROW)
    assert (job.number, job.submit_s, job.run_s, job.limit_s) == ("17", 100.0, 60.0, 600.0)
    assert (job.requested, job.allocated, job.user, job.group, job.queue) == (4.0, -1.0, "ada", "physics", "root.gpu")


def test_an_exclusive_job_has_the_cores_of_its_nodes_and_a_task_its_name():
    job = record({**ROW, "allocated": {"vcore": 64.0}, "array_job": 5, "array_task": 3})
    assert (job.number, job.allocated, job.whole_nodes) == ("5_3", 64.0, 2)
    [work], _ = select([job], Selection(), over(64))
    assert (work.processors, work.whole_nodes, work.cores) == (64, 2, 2)
    assert record(ROW).whole_nodes == 0


def test_an_array_counts_by_its_tasks_and_only_what_has_ended():
    tasks = [{**ROW, "id": 20 + n, "array_job": 17, "array_task": n, "submitted_at": 100.0 - n} for n in range(2)]
    rows = [{**ROW, "has_tasks": True}, *tasks, {**ROW, "id": 30, "ended_at": None}, {**ROW, "id": 31}]
    assert [job.number for job in ended_since(rows, 90.0)] == ["17_1", "17_0", "31"]
    assert [job.number for job in ended_since(rows, 100.0)] == ["17_0", "31"]


@pytest.mark.parametrize(
    ("resources", "others"),
    [
        ({"vcore": 2.0, "gpu:a100": 1.0, "gpu": 1.0}, (("gpu:a100", 2),)),
        ({"vcore": 2.0, "memory": 2.0**30}, (("memory", 2**31),)),
        ({"vcore": 2.0, "gpu": 0.0}, ()),
    ],
)
def test_a_job_asks_for_its_resources_on_each_of_its_nodes(resources, others):
    job = record({**ROW, "nodes": 2, "resources": resources})
    assert (job.nodes, job.others) == (2, others)
    [work], _ = select([job], Selection(), over(64))
    assert (work.nodes, work.others) == (2, others)


def test_nodes_of_the_records_have_their_partition_and_devices():
    rows = [
        {"name": "g1", "partition": "gpu", "capacity": {"vcore": 8.0, "memory": 2.0**30, "gpu": 2, "gpu:a100": 2}},
        {"name": "n1", "partition": "cpu", "capacity": {"vcore": 4.0}},
        {"name": "tiny", "partition": "cpu", "capacity": {"vcore": 0.5}},
    ]
    usual = {"node": "g1", "model": "a100", "group": 0, "memory": None, "state": "failed"}
    devices = [{**usual, "id": f"u{place}", "index": place} for place in range(2)]
    gpu, cpu = nodes_of(rows, [*devices, {**devices[0], "id": "u9", "group": None, "state": "gone"}])
    assert (gpu.partition, [one.id for one in gpu.devices]) == ("gpu", ["u0", "u1"])
    assert gpu.capacity == {"vcore": 8000, "memory": 2**30, "gpu:a100": 2, "gpu": 2}
    assert (cpu.name, cpu.partition, cpu.capacity) == ("n1", "cpu", {"vcore": 4000})


def test_what_never_started_and_what_has_no_limit_is_unknown():
    job = record({**ROW, "started_at": None, "time_limit_s": None})
    assert (job.run_s, job.limit_s) == (-1.0, -1.0)


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2592000), ("12h", 43200), ("90m", 5400), ("2w", 1209600)])
def test_a_period_is_a_number_with_a_unit(text, seconds):
    assert period_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "5y", "1e9d", "9999999d"])
def test_other_texts_are_no_period(text):
    with pytest.raises(Refused, match="is not a period; write 30d"):
        period_s(text)
