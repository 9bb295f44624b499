"""Advice on options of sacctmgr."""

from rankd.core.slurm.option_advice import advice_on_options
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Reading

HEADER = (
    "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRESMins"
    "|GrpTRESRunMins|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxSubmitPU|MaxTRESPA|MaxJobsPA"
    "|MaxSubmitPA|MinTRES|LimitFactor"
)


def test_each_column_of_a_table_of_qos_that_is_lost_has_advice():
    used = {"Name", "Priority", "UsageFactor"}
    assert [name for name in HEADER.split("|") if name not in used and not advice_on_options([name])] == []


def test_a_remark_names_the_values_and_says_each_advice_once():
    reading = Reading("qos")
    parse_qos("Name|Priority|MaxWall|MaxSubmitPU|GrpSubmit\nq|1|60|5|9\n", reading)
    [remark] = reading.remarks
    assert "MaxWall=60, MaxSubmitPU=5, GrpSubmit=9; jobs may ask for any time limit" in remark.message
    assert remark.message.count("max_pending_per_user") == 1
