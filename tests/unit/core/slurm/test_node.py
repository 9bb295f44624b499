"""Nodes of slurm.conf and of scontrol show node."""

import pytest

from rankd.config.plugin import factor_names
from rankd.config.settings import read_settings
from rankd.core.errors import ConfigurationError
from rankd.core.model.quantity import MOST_CORES, MOST_OF_A_NODE
from rankd.core.slurm.config import parse_config
from rankd.core.slurm.conversion import SourceText, convert_slurm
from rankd.core.slurm.node import known_nodes
from rankd.core.slurm.reading import Reading
from rankd.core.slurm.writing import write_files

SLURM_CONF = """ClusterName=lab
GresTypes=gpu
NodeName=DEFAULT RealMemory=512000 State=UNKNOWN
NodeName=gpu[1-4] CPUs=64 Gres=gpu:a100:4
NodeName=old[01-02],old07 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=128000 Gres=gpu:v100:2,gpu:p100:1
NodeName=login CPUs=8
PartitionName=all Nodes=ALL Default=YES
"""
SHOW_NODE = """NodeName=gpu1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=4 CPUEfctv=128 CPUTot=128 CPULoad=1.02
   AvailableFeatures=a100
   Gres=gpu:a100:4(S:0-1)
   NodeAddr=gpu1 NodeHostName=gpu1 Version=23.11.4
   RealMemory=1031000 AllocMem=0 FreeMem=900000 Sockets=2 Boards=1
   State=MIXED ThreadsPerCore=2 TmpDisk=0 Weight=1

NodeName=cpu1 Arch=x86_64 CoresPerSocket=8
   CPUTot=16 Gres=(null) RealMemory=64000
"""
MIB = 2**20


def read(text):
    reading = Reading("slurm.conf")
    found = parse_config(text, reading)
    return found.nodes, reading


def known(*texts):
    sources = [SourceText(name=f"f{place}", text=text, at=0.0) for place, text in enumerate(texts)]
    return read_settings(write_files(convert_slurm(sources))["rankd.toml"], factor_names()).nodes.known


def test_nodes_and_their_gpus_are_those_that_may_join():
    assert known(SLURM_CONF) == {
        "gpu[1-4]": {"vcore": 64, "memory": "500Gi", "gpu": 4},
        "old[01-02,07]": {"vcore": 32, "memory": "125Gi", "gpu": 3},
        "login": {"vcore": 8, "memory": "500Gi"},
    }


def test_nodes_as_scontrol_shows_them():
    assert known(SHOW_NODE) == {
        "gpu1": {"vcore": 128, "memory": "1031000Mi", "gpu": 4}, "cpu1": {"vcore": 16, "memory": "64000Mi"},
    }  # fmt: skip


def test_a_node_counts_where_it_is_named_first():
    lines = read("NodeName=n[1-3] CPUs=1 RealMemory=1\nNodeName=n[2-5] CPUs=2 RealMemory=2\n")[0]
    assert known_nodes(lines) == {
        "n[1-3]": {"vcore": 1, "memory": MIB}, "n[4-5]": {"vcore": 2, "memory": 2 * MIB},
    }  # fmt: skip


def test_a_node_without_its_size_may_offer_what_it_has():
    lines, reading = read("NodeName=n1 Gres=(null)\n")
    assert known_nodes(lines) == {"n1": {}}
    assert reading.remarks[0].message.endswith(
        "without CPUs and RealMemory its agent may offer as much as it finds of everything"
    )


def test_a_node_without_its_memory_keeps_its_other_bounds():
    lines, reading = read(
        "NodeName=n1 CPUs=4 Gres=gpu:2\nNodeName=n2 RealMemory=1 Gres=gpu:2\nNodeName=n3 Gres=gpu:2\n"
    )
    assert known_nodes(lines) == {
        "n1": {"vcore": 4, "memory": MOST_OF_A_NODE, "gpu": 2},
        "n2": {"vcore": MOST_CORES, "memory": MIB, "gpu": 2},
        "n3": {"vcore": MOST_CORES, "memory": MOST_OF_A_NODE, "gpu": 2},
    }
    assert reading.remarks[0].message == "node 'n1': without RealMemory its agent may offer as much as it finds of that"
    assert known("NodeName=n1 CPUs=4 Gres=gpu:2\n") == {"n1": {"vcore": 4, "memory": "1024Ti", "gpu": 2}}


def test_a_bad_count_is_an_error_and_writes_nothing():
    [problem] = read("NodeName=n1 CPUs=4 RealMemory=9 Gres=gpu:a100:four\n")[1].problems
    assert str(problem).startswith("slurm.conf:1: node 'n1': Gres=gpu:a100:four has no whole number")
    with pytest.raises(ConfigurationError, match="gpu:a100:four"):
        known("NodeName=n1 CPUs=4 RealMemory=9 Gres=gpu:a100:four\n")


def test_what_jobs_do_not_use_up_in_slurm_is_named():
    lines, reading = read("NodeName=n1 CPUs=2 RealMemory=1 Gres=bw:lustre:no_consume:4G\n")
    assert known_nodes(lines) == {"n1": {"vcore": 2, "memory": MIB, "bw": 2**32}}
    assert "no_consume has no equivalent in rankd" in reading.remarks[0].message


def test_models_of_gres_conf_are_named():
    sources = [
        SourceText(name="slurm.conf", text="NodeName=n1 CPUs=1 RealMemory=1 Gres=gpu:2\n", at=0.0),
        SourceText(name="gres.conf", text="AutoDetect=nvml\nName=gpu Type=A100 File=/dev/nvidia[0-1]\n", at=0.0),
    ]
    assert any("models of GPUs: a100;" in one.message for one in convert_slurm(sources).remarks)


def test_parts_of_gpus_are_named():
    lines, reading = read("NodeName=n1 CPUs=2 RealMemory=1024 Gres=gpu:2,shard:8\n")
    assert known_nodes(lines) == {"n1": {"vcore": 2, "memory": 1024 * MIB, "gpu": 2}}
    assert reading.remarks[0].message == "node 'n1': no equivalent in rankd for Gres=shard:8"


@pytest.mark.parametrize("names", ["n[1-2][3-4]", "n[5-1]", "n[1-999999999]", "n[1-9999999999999999999]", ""])
def test_nodes_that_can_not_be_read_keep_no_node_out(names):
    lines, reading = read(f"NodeName=n1 CPUs=2 RealMemory=1024\nNodeName={names} CPUs=2 RealMemory=1\n")
    assert lines == ()
    assert "so all may join" in reading.remarks[0].message


@pytest.mark.parametrize("size", ["CPUs=x RealMemory=1", "CPUs=1 RealMemory=1.5"])
def test_an_amount_that_is_not_a_number_is_refused(size):
    [problem] = read(f"NodeName=n1 {size}\n")[1].problems
    assert problem.line == 1


def test_more_than_a_node_may_have_is_not_taken():
    assert known("NodeName=n1 CPUs=99999999 RealMemory=1\nPriorityWeightAge=1\n") == {
        "n1": {"vcore": MOST_CORES, "memory": "1Mi"}
    }
    assert known("NodeName=n1 CPUs=1 RealMemory=99999999999999\n") == {"n1": {"vcore": 1, "memory": "1024Ti"}}
    assert known("NodeName=n1 CPUs=1 RealMemory=1 Gres=x:999P\n") == {"n1": {"vcore": 1, "memory": "1Mi"}}
