"""The limit of a partition's QoS counts, not that of the user beside it."""

from unit.core.slurm.test_limit import converted

QOS = "Name|Priority|GrpTRES|MaxTRESPU|GrpJobs\nnormal|0|||\ngpu|1|gres/gpu=8|cpu=16,gres/gpu=6|\n"
PARTITIONS = "PartitionName=gpu QoS=gpu\nPartitionName=cpu Default=YES\nPartitionName=long\n"
DUMP = """Cluster - 'x'
Parent - 'root'
Account - 'a'
Parent - 'a'
User - 'alice':GrpTRES=gres/gpu=4,cpu=64:MaxJobs=5
"""


def limits_of(queue):
    return [(limit.users, limit.maxresources, limit.maxapplications) for limit in queue.limits]


def test_a_users_limit_does_not_count_where_the_qos_of_the_partition_has_one():
    root, remarks = converted(QOS, PARTITIONS, DUMP)
    by_name = {queue.name: queue for queue in root.queues}
    assert limits_of(root) == [(("alice",), {"vcore": 64_000}, 5)]
    assert by_name["gpu"].max == {"gpu": 8}
    assert limits_of(by_name["gpu"]) == [(("*",), {"vcore": 16_000, "gpu": 6}, 0)]
    assert limits_of(by_name["cpu"]) == limits_of(by_name["long"]) == [(("alice",), {"gpu": 4}, 5)]
    told = "limits of users and accounts on gpu do not count in gpu: there the limit of the partition's QoS counts"
    [remark] = [one for one in remarks if told in one]
    assert "they count in each of the other queues by itself: cpu, long, default; to count them together" in remark


def test_without_a_limit_of_a_qos_those_of_users_count_in_all_queues():
    root, remarks = converted(PARTITIONS.replace("QoS=gpu", ""), DUMP)
    assert limits_of(root) == [(("alice",), {"gpu": 4, "vcore": 64_000}, 5)]
    assert not any("do not count in" in one for one in remarks)


def test_a_limit_of_a_user_counts_in_each_partition_by_itself_and_the_import_says_so():
    nodes = "NodeName=n[1-2] CPUs=1 RealMemory=1\n"
    apart = "PartitionName=a Nodes=n1 Default=YES\nPartitionName=b Nodes=n2\n"
    _, remarks = converted(nodes + apart, DUMP)
    assert any(
        "count in each partition by itself: default, b; in Slurm, all of them count together" in r for r in remarks
    )
    _, remarks = converted(nodes + "PartitionName=a Nodes=n[1-2] Default=YES\nPartitionName=b Nodes=n[1-2]\n", DUMP)
    assert not any("in each partition by itself" in one for one in remarks)


def test_a_limit_that_names_a_user_keeps_the_one_for_each_user_beside_it():
    qos = "Name|Priority|GrpTRES|MaxTRESPU\nnormal|0||\ngpu|1|gres/gpu=8|\nsmall|1||cpu=16,gres/gpu=2\n"
    root, _ = converted(qos, "PartitionName=gpu QoS=gpu\nPartitionName=cpu QoS=small Default=YES\n", DUMP)
    by_name = {queue.name: queue for queue in root.queues}
    assert limits_of(by_name["cpu"]) == [
        (("alice",), {"vcore": 16_000, "gpu": 2}, 5),
        (("*",), {"vcore": 16_000, "gpu": 2}, 0),
    ]
