"""Settings without an equivalent: which have no effect, and what to do about the others."""

import pytest

from rankd.core.slurm.config import parse_config
from rankd.core.slurm.plain_setting import PLAIN
from rankd.core.slurm.reading import Reading
from rankd.core.slurm.setting_advice import ADVICE, HARMLESS, advice_on, is_usual


def remarks_on(line):
    reading = Reading("slurm.conf")
    parse_config(f"{line}\n", reading)
    return [remark.message for remark in reading.remarks if remark.line == 1]


@pytest.mark.parametrize(
    "line",
    [
        "JobSubmitPlugins=lua", "Licenses=matlab:10", "Prolog=/etc/slurm/prolog.sh", "EnforcePartLimits=ALL",
        "PreemptMode=REQUEUE", "DefMemPerCPU=4000", "SelectType=select/linear", "SelectTypeParameters=CR_Socket",
        "OverTimeLimit=5", "SuspendProgram=/sbin/off", "MCSPlugin=mcs/user", "RequeueExit=3", "ConstrainRAMSpace=no",
        "DownNodes=n1 State=DOWN", "NodeSet=big Feature=big", "AccountingStorageEnforce=safe", "PrivateData=nodes",
    ],
)  # fmt: skip
def test_a_setting_that_decides_about_jobs_is_never_dropped_silently(line):
    [message] = remarks_on(line)
    assert line.partition("=")[0].lower() in message.lower()
    assert len(message) > len(line) + 30


def test_a_setting_of_a_later_version_is_named():
    [message] = remarks_on("WhoMayRunJobs=alice")
    assert message == (
        "WhoMayRunJobs = alice: no equivalent in rankd; the import does not know this setting; check whether it changes"
        " who may run what"
    )


@pytest.mark.parametrize(
    "line",
    ["SlurmctldPort=6817", "StateSaveLocation=/var", "PreemptMode=OFF", "SelectTypeParameters=CR_Core_Memory",
     "PreemptType=preempt/none", "SchedulerType=sched/backfill", "DefMemPerNode=UNLIMITED", "Prolog=(null)"],
)  # fmt: skip
def test_values_that_change_nothing_get_no_remark(line):
    assert remarks_on(line) == []


def test_each_setting_is_in_one_group():
    assert not [key for key in ADVICE if HARMLESS.fullmatch(key)]
    assert not [key for key in PLAIN if HARMLESS.fullmatch(key)]
    assert advice_on("licenses").startswith("rankd counts no licences")
    assert is_usual("selecttypeparameters", "CR_Core,CR_LLN")
