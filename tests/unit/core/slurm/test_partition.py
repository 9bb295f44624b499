"""Partitions: access, times, and a remark for each field that has no equivalent."""

import pytest

from rankd.core.slurm.config_line import fields_of
from rankd.core.slurm.partition import Access, PartitionLines
from rankd.core.slurm.reading import Reading


def read(*lines):
    reading = Reading("slurm.conf")
    partitions = PartitionLines(reading)
    for number, line in enumerate(lines, start=1):
        partitions.add(number, fields_of(f"PartitionName={line}"))
    assert reading.problems == []
    return partitions.found, [remark.message for remark in reading.remarks]


@pytest.mark.parametrize(
    "field",
    [
        "MaxTime=1-0", "MaxNodes=2", "MinNodes=4", "Hidden=YES", "AllocNodes=login1", "PreemptMode=REQUEUE",
        "OverSubscribe=EXCLUSIVE", "Shared=FORCE:4", "MaxCPUsPerNode=8", "MaxMemPerNode=1000", "DefMemPerCPU=100",
        "DefCpuPerGPU=8", "OverTimeLimit=5", "GraceTime=60", "DisableRootJobs=YES", "ExclusiveUser=YES",
        "SelectTypeParameters=CR_Socket", "Alternate=other", "JobDefaults=DefCpuPerGPU=2", "SuspendTime=600",
        "FieldOfTomorrow=yes",
    ],
)  # fmt: skip
def test_a_field_without_an_equivalent_is_named_with_advice(field):
    _, [remark] = read(f"a {field}")
    assert remark.startswith("partition 'a': no equivalent in rankd for ")
    assert remark.partition("; ")[2]


def test_what_scontrol_prints_of_a_plain_partition_gets_no_remark():
    found, remarks = read(
        "all AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A DefaultTime=NONE"
        " DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0"
        " LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO"
        " OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=8 TotalNodes=2"
        " SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
        " TRES=cpu=8,mem=1G"
    )
    assert remarks == []
    assert found[0].access == Access()
    assert found[0].default_time_s is None


def test_the_default_line_counts_for_the_lines_below_it():
    found, remarks = read("DEFAULT MaxTime=60 AllowGroups=staff", "a", "b AllowGroups=ALL MaxTime=UNLIMITED")
    assert [one.access.groups for one in found] == [("staff",), None]
    assert [one.default_time_s for one in found] == [3600.0, None]
    assert len(remarks) == 1


def test_a_job_without_a_time_limit_gets_the_default_or_the_longest_time():
    found, _ = read("a DefaultTime=10 MaxTime=60", "b DefaultTime=NONE MaxTime=2-0", "c MaxTime=INFINITE")
    assert [one.default_time_s for one in found] == [600.0, 2 * 86400.0, None]


@pytest.mark.parametrize("field", ["RootOnly=YES", "ReqResv=YES", "State=DOWN", "State=DRAIN", "State=INACTIVE"])
def test_fields_that_close_a_partition(field):
    assert read(f"a {field}")[0][0].access.closed == (field,)


def test_denied_accounts_count_only_without_allowed_ones():
    [first, second], _ = read("a AllowAccounts=x DenyAccounts=y", "b DenyAccounts=y,z DenyQos=low")
    assert first.access == Access(accounts=("x",))
    assert second.access == Access(denied_accounts=("y", "z"), denied_qos=("low",))


def test_a_time_that_can_not_be_read_is_refused():
    reading = Reading("slurm.conf")
    PartitionLines(reading).add(3, {"partitionname": "a", "maxtime": "soon"})
    assert [(problem.line, "MaxTime of 'a'" in problem.message) for problem in reading.problems] == [(3, True)]
