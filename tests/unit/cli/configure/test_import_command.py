"""rankd import slurm: from files to a directory that `rankd config check` takes."""

import os

import pytest

from rankd.cli.main import main
from rankd.config.configuration import load_configuration
from rankd.core.model.association import Association
from rankd.core.model.setting import Qos

DUMP = """QOS - 'high':Priority=100:UsageFactor=2.000000
QOS - 'normal':Priority=10:MaxWallDurationPerJob=60
Cluster - 'hpc':DefaultQOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Fairshare=60
Account - '007':Fairshare=2147483647
Parent - 'physics'
User - 'yes':DefaultAccount='physics':Fairshare=0.25:Priority=3
"""
SSHARE = (
    "Account|User|RawShares|RawUsage\nroot|||1500\n root|root|1|0\n physics||60|1500\n  physics|yes|1|1500\n 007||1|0\n"
)
CONFIG = """AccountingStorageEnforce = associations,limits,qos
SLURM_VERSION = 23.02.1
PriorityDecayHalfLife = 14-00:00:00
PriorityFavorSmall = Yes
PriorityFlags = NO_FAIR_TREE,SMALL_RELATIVE_TO_TIME
PriorityMaxAge = 3-00:00:00
PriorityWeightAge = 1000
PriorityWeightAssoc = 5
PriorityWeightFairShare = 100000
PriorityWeightPartition = 10
PriorityWeightQOS = 0
PriorityWeightTRES = CPU=1000,GRES/gpu=3000
"""
PARTITIONS = "PartitionName=batch PriorityJobFactor=7 Default=YES TRESBillingWeights=CPU=2.0,Mem=0.5G\n"


@pytest.fixture
def site(tmp_path):
    directory = tmp_path / "slurm"
    directory.mkdir()
    for name, text in {"hpc.cfg": DUMP, "shares": SSHARE, "config": CONFIG, "partitions": PARTITIONS}.items():
        (directory / name).write_text(text)
        os.utime(directory / name, (1.7e9, 1.7e9))
    return directory


def import_slurm(*words):
    return main(["import", "slurm", *map(str, words)])


def test_what_slurm_knows_becomes_a_configuration(site, tmp_path, capsys):
    assert import_slurm(site, "-o", tmp_path / "etc") == 0
    made = load_configuration(tmp_path / "etc")
    assert set(made.associations) == {
        Association(account="root", user="root", shares=1.0, default=True),
        Association(account="physics", parent="root", shares=60.0),
        Association(account="007", parent="root", shares="parent"),
        Association(account="physics", user="yes", shares=0.25, priority=3, default=True),
    }
    assert made.settings.qos == [Qos(name="high", priority=100, usage_factor=2.0), Qos(name="normal", priority=10)]
    assert made.settings.default_qos == "normal"
    priority = made.settings.priority
    assert priority.weights == {
        "age": 1000, "fairshare": 100000, "queue": 10, "association": 5, "resource.vcore": 1000, "resource.gpu": 3000,
    }  # fmt: skip
    assert (priority.favor, priority.size_relative_to_time, priority.max_age_s) == ("small", True, 3 * 86400)
    assert (priority.fairshare.algorithm, priority.fairshare.half_life_s) == ("classic", 14 * 86400)
    assert priority.fairshare.billing == {"vcore": 2.0, "memory": 0.5 / 2**30}
    factors = {queue.path: queue.properties.priority_factor for queue in made.partitions[0].root.queues}
    assert factors == {"root.batch": 7, "root.default": 7}
    assert (tmp_path / "etc" / "usage.csv").read_text() == (
        "account,user,usage,usage_at\nphysics,yes,1500,1700000000\n"
    )
    assert [(adapter.input, adapter.options) for adapter in made.settings.adapters] == [
        ("usage", {"path": "usage.csv"})
    ]
    assert main(["config", "check", str(tmp_path / "etc")]) == 0
    assert "no errors, no warnings" in capsys.readouterr().out


def test_what_did_not_come_along_is_said_line_by_line(site, tmp_path, capsys):
    import_slurm(site, "-o", tmp_path / "etc")
    told = capsys.readouterr().out.splitlines()
    lost = (
        "hpc.cfg:2: QoS 'normal': no equivalent in rankd for MaxWallDurationPerJob=60; jobs may ask for any time limit"
    )
    assert any(line.startswith(lost) for line in told)
    assert "import: AdminLevel: admission.admins has root" in told
    assert "shares:6: account '007' has 1 shares here and parent in hpc.cfg; the latter are used" in told
    assert "hpc.cfg: taken as the output of `sacctmgr dump`" in told


def test_a_bad_line_writes_nothing(site, tmp_path, capsys):
    (site / "hpc.cfg").write_text(DUMP + "User - 'ali")
    assert import_slurm(site, "-o", tmp_path / "etc") == 2
    assert "hpc.cfg:10: the name in 'User - 'ali' has a quote that is not closed" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slurm"]


def test_a_directory_that_holds_something_is_not_touched_without_force(site, tmp_path, capsys):
    target = tmp_path / "etc"
    target.mkdir()
    (target / "queues.yaml").write_text("partitions: []")
    assert import_slurm(site, "-o", target) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in target.iterdir()] == ["queues.yaml"]
    assert import_slurm(site, "-o", target, "--force", "-q") == 0
    assert load_configuration(target).associations


def test_nodes_gpus_and_their_limits_come_over(site, tmp_path, capsys):
    """The partitions and nodes of a small site, in the forms of slurm.conf, gres.conf and sacctmgr's manuals."""
    (site / "slurm.conf").write_text(
        "GresTypes=gpu,mps\nNodeName=gpu[01-02] CPUs=64 RealMemory=512000 Gres=gpu:a100:4(S:0-1),gpu:v100:1\n"
        "PartitionName=gpu Nodes=gpu[01-02] QoS=high TRESBillingWeights=CPU=1,GRES/gpu=2.0,GRES/gpu:a100=4\n"
    )
    (site / "gres.conf").write_text("AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia[0-3] Links=-1,4,4,4\n")
    (site / "partitions").write_text("PartitionName=batch PriorityJobFactor=7 Default=YES\n")
    (site / "hpc.cfg").write_text(
        DUMP.replace(
            "UsageFactor=2.0", "GrpTRES=gres/gpu=6,gres/gpu:a100=4:MaxTRESPerUser=gres/gpu=2:UsageFactor=2.0", 1
        ).replace(":Priority=3\n", ":Priority=3:GrpTRES=gres/gpu=3\n")
    )
    assert import_slurm(site, "-o", tmp_path / "etc") == 0
    made = load_configuration(tmp_path / "etc")
    assert made.settings.nodes.known == {"gpu[01-02]": {"vcore": 64, "memory": "500Gi", "gpu": 5}}
    assert made.settings.priority.fairshare.billing == {"vcore": 1.0, "gpu": 2.0, "gpu:a100": 6.0}
    root = made.partitions[0].root
    assert root.limits == (), "in the queue gpu, the limit of its QoS counts"
    gpu, batch = ({queue.name: queue for queue in root.queues}[name] for name in ("gpu", "batch"))
    assert [(limit.users, limit.maxresources) for limit in batch.limits] == [(("yes",), {"gpu": 3})]
    assert gpu.max == {"gpu": 6, "gpu:a100": 4}
    assert [(limit.users, limit.maxresources) for limit in gpu.limits] == [(("*",), {"gpu": 2})]
    told = capsys.readouterr().out
    assert "slurm.conf:1: GresTypes mps: no equivalent in rankd" in told
    assert "gres.conf:2: file=/dev/nvidia[0-3], links=-1,4,4,4: agents read this from the driver" in told
    assert ", 2 nodes; " in told


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"hello\n"])
def test_what_can_not_be_read_is_named(tmp_path, capsys, content):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    assert import_slurm(file, "-o", tmp_path / "etc") == 2
    assert "file" in capsys.readouterr().err
    assert not (tmp_path / "etc").exists()


def test_a_tree_of_thousands_of_users_comes_over_whole(tmp_path):
    lines = ["Cluster - 'big'", "Parent - 'root'", *(f"Account - 'lab{lab}':Fairshare={lab + 1}" for lab in range(100))]
    for lab in range(100):
        lines.append(f"Parent - 'lab{lab}'")
        lines += [f"User - 'u{lab}x{user}':DefaultAccount='lab{lab}':Fairshare={user + 1}" for user in range(50)]
    (tmp_path / "big.cfg").write_text("\n".join(lines) + "\n")
    assert import_slurm(tmp_path / "big.cfg", "-o", tmp_path / "etc") == 0
    made = load_configuration(tmp_path / "etc").associations
    assert len(made) == 5100
    assert Association(account="lab99", user="u99x49", shares=50.0, default=True) in made
