"""Limits that have an equivalent: of the QoS of partitions, and of users with one account."""

from rankd.config.queues import read_queues
from rankd.core.slurm.conversion import SourceText, convert_slurm
from rankd.core.slurm.writing import write_files

QOS = """Name|Priority|GrpTRES|MaxTRESPU|MaxTRES
normal|0|||
gpu|1|cpu=256,gres/gpu=8,gres/gpu:a100=4,mem=2T,node=4|gres/gpu=2|gres/gpu=1
spare|1|gres/gpu=3||
"""
PARTITIONS = "PartitionName=gpu QoS=gpu PriorityJobFactor=1\nPartitionName=cpu Default=YES QoS=N/A\n"
DUMP = """Cluster - 'x'
Parent - 'root'
Account - 'a'
Account - 'b'
Parent - 'a'
User - 'alice':GrpTRES=gres/gpu=4
User - 'bob':GrpTRES=gres/gpu=4
User - 'carl':GrpTRES=gres/gpu=0
User - 'dora':GrpTRES=gres/gpu=-1
Parent - 'b'
User - 'bob'
"""


def converted(*texts):
    found = convert_slurm([SourceText(name=f"f{place}", text=text, at=0.0) for place, text in enumerate(texts)])
    return read_queues(write_files(found)["queues.yaml"]).partitions[0].root, [str(one) for one in found.remarks]


def test_the_qos_of_a_partition_limits_its_queue():
    root, remarks = converted(QOS, PARTITIONS)
    by_name = {queue.name: queue for queue in root.queues}
    assert by_name["gpu"].max == {"vcore": 256_000, "gpu": 8, "gpu:a100": 4, "memory": 2**41}
    [limit] = by_name["gpu"].limits
    assert (limit.users, limit.maxresources) == (("*",), {"gpu": 2})
    assert (by_name["cpu"].max, by_name["cpu"].limits) == ({}, ())
    assert "f0:3: QoS 'gpu': no equivalent in rankd for GrpTRES=node=4" in remarks
    assert any(one.startswith("f0:3: QoS 'gpu': no equivalent in rankd for MaxTRES=gres/gpu=1;") for one in remarks)
    told = "f0:4: QoS 'spare': no equivalent in rankd for GrpTRES=gres/gpu=3, as it is the QoS of no partition"
    assert any(one.startswith(f"{told};") for one in remarks)
    assert any("models of GPUs: a100; compare" in remark for remark in remarks)


def test_jobs_that_name_no_queue_have_the_limits_of_the_default_partition():
    root, remarks = converted(QOS, "PartitionName=gpu QoS=gpu Default=YES\n")
    assert [(queue.name, queue.max["gpu"]) for queue in root.queues] == [("gpu", 8), ("default", 8)]
    assert "import: limits of the partitions' QoS count in each queue by itself: gpu, default" in remarks


def test_a_user_never_gets_more_than_the_queue():
    root, _ = converted(QOS.replace("|gres/gpu=2|", "|gres/gpu=99,mem=1.5G|"), PARTITIONS)
    [limit] = next(queue for queue in root.queues if queue.name == "gpu").limits
    assert limit.maxresources == {"gpu": 8, "memory": 3 * 2**29}


def test_a_user_with_one_account_is_limited_in_all_queues():
    root, remarks = converted(DUMP)
    assert [(limit.users, limit.maxresources) for limit in root.limits] == [(("alice",), {"gpu": 4})]
    told = "f0:7: user 'bob': no equivalent in rankd for GrpTRES=gres/gpu=4, since the user has several accounts;"
    assert any(one.startswith(told) for one in remarks)
    assert any(
        remark.startswith("f0:8: user 'carl': no equivalent in rankd for GrpTRES=gres/gpu=0") for remark in remarks
    )
    assert not any("dora" in remark for remark in remarks)


def test_a_limit_that_can_not_be_read_is_named_and_left_out():
    root, remarks = converted("Cluster - 'x'\nAccount - 'a'\nParent - 'a'\nUser - 'u':GrpTRES=gres/gpu\n")
    assert root.limits == ()
    assert any("user 'u': GrpTRES is left out" in remark for remark in remarks)


def test_amounts_that_no_limit_can_have_are_named():
    for amount in ("gres/gpu=1.5", "gres/gpu=99999999P", "gres/gpu:A_B!=1", "cpu=1e300"):
        root, remarks = converted(f"Cluster - 'x'\nAccount - 'a'\nParent - 'a'\nUser - 'u':GrpTRES={amount}\n")
        assert root.limits == ()
        assert any(f"no equivalent in rankd for GrpTRES={amount.partition('=')[0]}" in remark for remark in remarks)
