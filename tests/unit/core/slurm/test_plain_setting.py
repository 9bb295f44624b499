"""Settings that become one setting of rankd each."""

import pytest

from rankd.core.slurm.plain_setting import plain_setting
from rankd.core.slurm.reading import Reading


def read(key, value):
    reading = Reading("slurm.conf")
    return plain_setting(3, key, value, reading), reading


@pytest.mark.parametrize(
    ("key", "value", "settings"),
    [
        ("ClusterName", "Uni-2", {"site.name": "uni-2"}),
        ("KillWait", "30 sec", {"node.grace_s": 30.0}),
        ("SlurmdTimeout", "300", {"node.lost_after_s": 300.0}),
        ("SlurmdTimeout", "0", {}),
        ("MaxArraySize", "1001", {"admission.max_array_tasks": 1001.0}),
        ("MaxArraySize", "999999999", {"admission.max_array_tasks": 4_194_304.0}),
        ("MaxJobCount", "10000", {"admission.max_pending": 10000.0}),
        ("JobRequeue", "0", {"node.max_requeues": 0.0}),
        ("JobRequeue", "1", {}),
        ("DisableRootJobs", "YES", {"admission.submitters": "users"}),
        ("DisableRootJobs", "No", {}),
        ("PrivateData", "jobs,usage", {"privacy.jobs": "own"}),
        ("PrivateData", "none", {}),
        ("DependencyParameters", "kill_invalid_depend", {"scheduling.cancel_if_unmet": True}),
        ("SchedulerParameters", "bf_window=10,kill_invalid_depend", {"scheduling.cancel_if_unmet": True}),
    ],
)
def test_a_value_becomes_a_setting(key, value, settings):
    found, reading = read(key, value)
    assert found == settings
    assert reading.problems == []


def test_words_without_an_equivalent_are_named():
    assert "PrivateData usage:" in read("PrivateData", "jobs,usage")[1].remarks[0].message
    assert "SchedulerParameters bf_window=10:" in read("SchedulerParameters", "bf_window=10")[1].remarks[0].message


def test_another_value_is_refused():
    assert (
        read("ClusterName", "our cluster")[1].remarks[0].message.startswith("ClusterName our cluster: site.name takes")
    )
    [problem] = read("KillWait", "soon")[1].problems
    assert (problem.line, problem.message) == (3, "KillWait: 'soon' is not a whole number")
