"""scontrol's config and partitions, slurm.conf, and the tables of QoS."""

import pytest

from rankd.core.model.setting import Qos
from rankd.core.slurm.config import parse_config
from rankd.core.slurm.duration import parse_duration
from rankd.core.slurm.partition import Partition
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Reading
from rankd.core.slurm.tres import parse_tres, per_unit

CONFIG = """Configuration data as of 2026-01-02T03:04:05
AccountingStorageEnforce = associations,limits,qos
AccountingStorageTRES   = cpu,mem,energy,node,billing,gres/gpu
PriorityParameters      = (null)
PrioritySiteFactorPlugin = (null)
PriorityDecayHalfLife   = 14-00:00:00
PriorityCalcPeriod      = 00:05:00
PriorityFavorSmall      = Yes
PriorityFlags           = CALCULATE_RUNNING,SMALL_RELATIVE_TO_TIME,MAX_TRES
PriorityMaxAge          = 1-12:00:00
PriorityUsageResetPeriod = NONE
PriorityType            = priority/multifactor
PriorityWeightAge       = 70000
PriorityWeightAssoc     = 0
PriorityWeightFairShare = 140000
PriorityWeightJobSize   = 200
PriorityWeightPartition = 1000000
PriorityWeightQOS       = 50000
PriorityWeightTRES      = CPU=1000,Mem=2000,GRES/gpu=30000,Energy=1
SLURM_VERSION           = 21.08.5
SchedulerType           = sched/backfill
"""
PARTITIONS = """PartitionName=short
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   PriorityJobFactor=100 PriorityTier=1 RootOnly=NO
   TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0

PartitionName=long
   Default=NO PriorityJobFactor=1 PriorityTier=5
"""
QOS = """Name|Priority|GraceTime|Preempt|PreemptMode|Flags|UsageThres|UsageFactor|MaxWall
normal|0|00:00:00|||||1.000000|
high|69119|00:01:00|low|cluster|DenyOnLimit||2.500000|2-00:00:00
"""


def read(parse, text):
    reading = Reading("slurm.txt")
    return parse(text, reading), reading


def test_weights_half_life_and_the_rest_of_a_config():
    found, reading = read(parse_config, CONFIG)
    assert reading.problems == []
    assert found.weights == {
        "age": 70000, "fairshare": 140000, "size": 200, "queue": 1000000, "qos": 50000,
        "resource.vcore": 1000, "resource.memory": 2000, "resource.gpu": 30000,
    }  # fmt: skip
    assert found.settings == {
        "priority.fairshare.half_life_s": 14 * 86400.0,
        "priority.favor": "small",
        "priority.fairshare.algorithm": "fair_tree",
        "priority.size_relative_to_time": True,
        "priority.max_age_s": 36 * 3600.0,
    }


def test_flags_and_resources_without_counterpart_are_named():
    remarks = [(remark.line, remark.message) for remark in read(parse_config, CONFIG)[1].remarks]
    assert (9, "PriorityFlags CALCULATE_RUNNING: no equivalent in rankd") in remarks
    assert (9, "PriorityFlags MAX_TRES: no equivalent in rankd") in remarks
    assert (19, "PriorityWeightTRES Energy=1: no equivalent in rankd for this resource") in remarks
    assert not [message for line, message in remarks if line == 2]
    assert not [message for _, message in remarks if "priorityparameters" in message]
    assert remarks[-1] == (0, "settings without an effect on who may run what, when or where, left out: 1")


@pytest.mark.parametrize(
    ("lines", "algorithm"),
    [
        ("SLURM_VERSION = 18.08.3\nPriorityFlags =", "classic"),
        ("SLURM_VERSION = 18.08.3\nPriorityFlags = FAIR_TREE", "fair_tree"),
        ("SLURM_VERSION = 19.05.0\nPriorityFlags =", "fair_tree"),
        ("PriorityFlags=NO_FAIR_TREE", "classic"),
        ("PriorityFlags=DEPTH_OBLIVIOUS", "classic"),
    ],
)
def test_the_algorithm_follows_flags_and_version(lines, algorithm):
    text = f"{lines}\nPriorityWeightAge=1\n"
    assert read(parse_config, text)[0].settings["priority.fairshare.algorithm"] == algorithm


def test_a_half_life_of_zero_never_decays():
    assert read(parse_config, "PriorityDecayHalfLife = 00:00:00\nPriorityWeightAge=1\n")[0].settings == {
        "priority.fairshare.half_life_s": "none"
    }


def test_basic_priority_is_first_come_first_served():
    assert read(parse_config, "PriorityType = priority/basic\n")[0].settings == {"priority.policy": "fcfs"}
    found, reading = read(parse_config, "PriorityWeightAge = 0\nPriorityMaxAge = 7-0\n")
    assert found.settings["priority.policy"] == "fcfs"
    assert found.weights == {}
    assert "no weight is above 0" in reading.remarks[0].message


def test_partitions_of_scontrol_and_of_slurm_conf():
    found, reading = read(parse_config, PARTITIONS)
    assert reading.problems == []
    billing = {"vcore": 1.0, "memory": 0.25 / 2**30, "gpu": 2.0}
    assert found.partitions == (
        Partition(name="short", line=1, factor=100, is_default=True, billing=billing),
        Partition(name="long", line=7, factor=1, tier=5),
    )
    assert reading.remarks == []
    line = 'PartitionName=short Nodes=n[1-4] Default=YES PriorityJobFactor=100 TRESBillingWeights="CPU=1.0,Mem=0.25"\n'
    [partition] = read(parse_config, line)[0].partitions
    assert partition.billing == {"vcore": 1.0, "memory": 0.25 / 2**20}
    assert (partition.factor, partition.is_default) == (100, True)


def test_slurm_bills_a_model_and_all_gpus_for_one_device():
    line = 'PartitionName=gpu TRESBillingWeights="CPU=1,GRES/gpu=2.0,GRES/gpu:a100=4"\n'
    found, reading = read(parse_config, line)
    assert found.partitions[0].billing == {"vcore": 1.0, "gpu": 2.0, "gpu:a100": 6.0}
    assert "so gpu:a100 = 6" in reading.remarks[0].message
    found, reading = read(parse_config, 'PartitionName=gpu TRESBillingWeights="GRES/gpu:a100=4"\n')
    assert found.partitions[0].billing == {"gpu:a100": 4.0}
    assert not reading.remarks


def test_devices_of_gres_conf():
    text = (
        "AutoDetect=nvml\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]\nName=gpu Type=v100 Count=2\n"
        "NodeName=n3 AutoDetect=off\n"
    )
    found, reading = read(parse_config, text)
    assert found.nodes == ()
    assert [(remark.line, remark.message.partition(":")[0]) for remark in reading.remarks] == [
        (2, "file=/dev/nvidia[0-3]"), (4, "AutoDetect=off"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("PriorityWeightAge = lots", "'lots' is not a number"),
        ("PriorityWeightAge = -1", "'-1' is not a number of at least 0"),
        ("PriorityMaxAge = soon", "'soon' is not a time"),
        ("PriorityWeightTRES = CPU", "'CPU' is not a TRES with a number"),
        ("PartitionName=a TRESBillingWeights=CPU=x", "'CPU=x' is not a TRES with a number"),
        ("nothing", "has no line of the form Key = value"),
    ],
)
def test_a_bad_value_is_refused(line, message):
    [problem] = read(parse_config, f"{line}\n")[1].problems
    assert message in problem.message


def test_qos_with_priority_and_usage_factor():
    found, reading = read(parse_qos, QOS)
    assert found.qos == (Qos(name="normal"), Qos(name="high", priority=69119, usage_factor=2.5))
    [remark] = reading.remarks
    assert remark.line == 3
    assert "GraceTime=00:01:00, Preempt=low, Flags=DenyOnLimit, MaxWall=2-00:00:00" in remark.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Name|UsageFactor\nnormal|1\n", 1),
        ("Name|Priority\na|1\na|2\n", 3),
        ("Name|Priority\na|x\n", 2),
        ("Name|Priority|UsageFactor\na|1|-1\n", 2),
        ("Name|Priority|UsageFactor\na|1\n", 2),
    ],
)
def test_a_bad_table_of_qos_is_refused(text, line):
    assert [problem.line for problem in read(parse_qos, text)[1].problems] == [line]


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1:2:3:4", "1.5", "INFINITE"])
def test_what_is_no_time_is_none(text):
    with pytest.raises(ValueError, match="is not a time"):
        parse_duration(text)


def test_times_with_and_without_days():
    assert [parse_duration(text) for text in ("5", "1:30", "1:00:00", "2-3", "1-2:3", "1-0:0:1")] == [
        300, 90, 3600, 2 * 86400 + 3 * 3600, 86400 + 2 * 3600 + 180, 86401,
    ]  # fmt: skip


def test_memory_is_weighed_per_mebibyte_unless_it_says_otherwise():
    assert parse_tres("Mem=0.25G,CPU=2") == {"Mem": (0.25, "G"), "CPU": (2.0, "")}
    assert per_unit("memory", 4, "") * 2**20 == 4
    assert per_unit("gpu", 4, "") == 4
