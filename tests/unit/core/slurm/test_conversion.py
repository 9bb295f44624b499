"""From several of Slurm's files to one configuration; the texts themselves are checked by loading them."""

import pytest

from rankd.core.errors import ConfigurationError
from rankd.core.model.association import Association
from rankd.core.slurm.conversion import SourceText, convert_slurm
from rankd.core.slurm.identify import kind_of
from rankd.core.slurm.queue import Queue

DUMP = "Cluster - 'x':DefaultQOS='high'\nAccount - 'a':Fairshare=3\nParent - 'a'\nUser - 'u':DefaultAccount='a'\n"
SSHARE = "Account|User|RawShares|RawUsage\nroot|||60\n a||4|60\n  a|u|1|50\n  a|gone|1|10\n"
QOS = "Name|Priority|UsageFactor\nnormal|1|1\nhigh|10|2\n"
CONFIG = "PriorityType = priority/multifactor\nPriorityWeightAge = 5\n"


def convert(*texts, cluster=""):
    sources = [SourceText(name=f"file{place}", text=text, at=100.0 + place) for place, text in enumerate(texts)]
    return convert_slurm(sources, cluster)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (DUMP, "dump"), (SSHARE, "shares"), (QOS, "qos"), (CONFIG, "config"),
        ("Account|User|Share\n", "associations"), ("PartitionName=a Nodes=n1\n", "config"),
        ("NodeName=n1 Gres=gpu:2\n", "config"), ("AutoDetect=nvml\n", "config"),
        ("Name=gpu Type=a100 File=/dev/nvidia0\n", "config"), ("Name=x\n", None),
        ("a|b|1\n", None), ("hello\n", None), ("", None),
    ],
)  # fmt: skip
def test_files_are_known_by_what_is_in_them(text, kind):
    assert kind_of(text) == kind


def test_the_dump_gives_the_tree_and_sshare_the_usage():
    found = convert(SSHARE, DUMP, QOS)
    assert [(entry.account, entry.user, entry.shares) for entry in found.associations] == [
        ("a", None, 3),
        ("a", "u", 1),
    ]
    assert found.usage == (Association(account="a", user="u", usage=50, usage_at=100.0),)
    assert found.default_qos == "high"


def test_where_files_disagree_it_is_said():
    messages = [str(remark) for remark in convert(DUMP, SSHARE).remarks]
    assert "file1:3: account 'a' has 4 shares here and 3 in file0; the latter are used" in messages
    assert "file1:5: user 'gone' in 'a' is left out: it is not in file0, which has the tree that is used" in messages
    assert any("the default QoS 'high' is in none of the files" in message for message in messages)


def test_partitions_become_queues():
    text = (
        "PartitionName=a.b PriorityJobFactor=5 Default=YES TRESBillingWeights=CPU=2\n"
        "PartitionName=a-b PriorityJobFactor=1\nPartitionName=long PriorityJobFactor=7\nPriorityWeightAge=1\n"
    )
    found = convert(text)
    assert found.queues == (
        Queue(name="a-b", factor=5), Queue(name="long", factor=7), Queue(name="default", factor=5)
    )  # fmt: skip
    assert found.billing == {"vcore": 2.0}
    messages = [remark.message for remark in found.remarks]
    assert "partition 'a.b' becomes the queue 'a-b'" in messages
    assert "partition 'a-b' can't be a queue of its own: there is 'a-b' already" in messages
    assert "jobs that name no queue go to root.default; it has the settings of 'a-b'" in messages
    told = "TRESBillingWeights of 'a-b', 'long' differ or are not set; those of 'a.b' are used for all"
    assert told in messages


def test_all_problems_of_all_files_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        convert("Cluster - 'x'\nAccount - 'a':Fairshare=x\n", "Name|Priority\na|x\n", "what is this\n")
    assert [(problem.file, problem.line) for problem in caught.value.problems] == [
        ("file0", 2), ("file1", 2), ("file2", 0),
    ]  # fmt: skip


def test_a_cycle_is_told_at_its_line():
    text = "Account|ParentName|User|Share\nroot|||1\na|b||1\nb|c||1\nc|a||1\nd|gone||1\n"
    with pytest.raises(ConfigurationError) as caught:
        convert(text)
    told = [(problem.file, problem.line, problem.message) for problem in caught.value.problems]
    assert told == [
        (
            "file0",
            3,
            "accounts are their own ancestors: a -> b -> c -> a; give one of them a parent that leads to root",
        ),
        ("file0", 6, "account 'd' has the unknown parent 'gone'; list it or correct the name"),
    ]


def test_gpus_are_not_free_where_the_default_partition_weighs_none():
    cpu = "PartitionName=cpu Default=YES TRESBillingWeights=CPU=1\n"
    found = convert(cpu + "PartitionName=gpu TRESBillingWeights=CPU=2,GRES/gpu=8\n")
    assert found.billing == {"vcore": 1.0, "gpu": 8.0}
    told = "'cpu' weighs no GPUs, so the weights of 'gpu' are used for them: gpu = 8"
    assert told in [remark.message for remark in found.remarks]


def test_models_of_nodes_are_listed_without_a_price_too():
    text = "NodeName=n1 CPUs=8 RealMemory=1000 Gres=gpu:A100:2,gpu:v100\nPartitionName=a Nodes=n1 Default=YES\n"
    [told] = [remark.message for remark in convert(text).remarks if remark.message.startswith("models of GPUs")]
    assert told.startswith("models of GPUs: a100, v100; compare them")
