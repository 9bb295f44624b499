"""``rankd update``: words in, messages out."""

import pytest
from builder import NOW

from rankd.cli.jobs.update import fields, wanted
from rankd.cli.main import _parser
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency
from rankd.wire.message import JobFilter

EVERY = 2**31 - 1


def parsed(*words):
    return _parser("update").parse_args(["update", *words])


def test_a_list_of_nodes_as_slurms_w_says_how_to_change_them(capsys):
    with pytest.raises(SystemExit):
        parsed("1", "-w", "n1")
    assert "write -C 'rankd/node in (NODE,NODE)'" in capsys.readouterr().err


def changed(*words):
    return fields(parsed("1", *words), NOW)


def chosen(*words):
    arguments = parsed(*words, "--qos", "high")
    return wanted(arguments, [number for group in arguments.job for number in group])


def test_every_word_is_a_field():
    assert changed(
        "--urgency", "hold", "-q", "root.a", "-p", "gpu", "--qos", "high", "-A", "physics", "--class", "batch",
        "--application", "app", "-J", "new", "--comment", "why", "-t", "1:00:00", "-N", "2-4", "-C", "gpu=a100",
        "--exclusive", "-b", "now+60", "-d", "afterok:3:4", "--no-requeue", "--fix-priority", "7",
    ) == {
        "urgency": 0, "queue": "root.a", "partition": "gpu", "qos": "high", "account": "physics",
        "priority_class": "batch", "application": "app", "name": "new", "comment": "why", "time_limit_s": 3600.0,
        "nodes": 4, "min_nodes": 2, "constraints": "gpu=a100", "exclusive": True, "begin_at": NOW + 60,
        "depends_on": [Dependency(type="afterok", job=3), Dependency(type="afterok", job=4)], "requeue": False,
        "fixed_priority": 7,
    }  # fmt: skip


def test_an_empty_word_takes_off():
    assert changed("--comment", "", "--application", "", "--class", "", "-C", "", "-t", "", "-b", "now", "-d", "") == {
        "comment": None, "application": None, "priority_class": None, "constraints": None, "time_limit_s": None,
        "begin_at": None, "depends_on": [],
    }  # fmt: skip
    assert changed("--unfix", "--no-exclusive", "-N", "3") == {
        "fixed_priority": None, "exclusive": False, "nodes": 3, "min_nodes": None,
    }  # fmt: skip


def test_only_the_amounts_that_are_named_are_sent():
    assert changed("-c", "2", "--mem", "4G", "--gpus-per-node", "0", "--gres", "fpga:2") == {
        "resources": {"vcore": 2, "memory": "4Gi", "gpu": None, "fpga": 2}
    }
    assert changed("--mem", "0") == {"resources": {"memory": None}}
    for none in (["--gres", "gpu:0"], ["--gres", "none"], ["--gres", "gpu:a100:0"], ["--gpus-per-node", "a100:0"]):
        assert changed(*none) == {"resources": {"gpu": None}}
    assert changed("--gres", "gpu:a100:0,gpu:v100:1") == {"resources": {"gpu:v100": 1}}
    with pytest.raises(Refused, match="different GPUs"):
        changed("--gres", "gpu:1", "--gpus-per-node", "2")


def test_jobs_are_chosen_by_number_or_by_what_they_are(monkeypatch):
    monkeypatch.setenv("RANKD_USER", "me")
    pending = ["pending"]
    assert chosen("1", "3-5") is None
    assert chosen("--me") == JobFilter(users=["me"], states=pending, limit=EVERY)
    assert chosen("-u", "bob,carol", "7") == JobFilter(users=["bob", "carol"], states=pending, ids=[7], limit=EVERY)
    assert chosen("-w", "queue=root.a,root.b", "-w", "qos=low", "--where", "state=PD,R") == JobFilter(
        queues=["root.a", "root.b"], qos=["low"], states=["pending", "running"], limit=EVERY
    )
    assert chosen("-w", "user=bob", "-w", "account=a", "-w", "partition=p", "-w", "name=n") == JobFilter(
        users=["bob"], accounts=["a"], partitions=["p"], names=["n"], states=pending, limit=EVERY
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which jobs"),
        (["-w", "colour=red"], "unknown; known: user"),
        (["-w", "user=a", "-w", "user=b"], "given twice"),
        (["-u", "a", "-w", "user=b"], "not both"),
        (["-w", "state=late"], "unknown state"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(words, said):
    with pytest.raises(Refused, match=said):
        chosen(*words)


def test_both_ways_with_a_fixed_priority_are_refused():
    with pytest.raises(Refused, match="not both"):
        changed("--unfix", "--fix-priority", "1")


def test_gpus_of_the_whole_job_are_shared_by_its_nodes():
    assert changed("-N", "2", "--gpus", "a100:4")["resources"] == {"gpu:a100": 2}
    assert changed("-N", "1", "-G", "0")["resources"] == {"gpu": None}
    for words, message in (
        (["-G", "2"], "also name the number of nodes, such as -N 1"),
        (["-G", "3", "-N", "2"], "3 GPUs can't be shared evenly by 2 nodes"),
        (["-G", "2", "-N", "1", "--gpus-per-node", "1"], "ask for different GPUs per node"),
    ):
        with pytest.raises(Refused, match=message):
            changed(*words)
