"""Three realistic sites: nothing that decides who may run what, when or where is dropped without a remark."""

import re
from pathlib import Path

import pytest

from rankd.cli.main import main
from rankd.config.configuration import load_configuration
from rankd.core.admission.acl import parse_acl
from rankd.core.model.queue import walk_queues

SITES = Path(__file__).with_name("slurm_site")


@pytest.fixture(params=["lab", "university", "box"])
def site(request):
    return request.param


def imported(name, tmp_path, capsys):
    assert main(["import", "slurm", str(SITES / name), "-o", str(tmp_path / "etc")]) == 0
    told = capsys.readouterr().out
    assert main(["config", "check", str(tmp_path / "etc")]) == 0
    return load_configuration(tmp_path / "etc"), told, capsys.readouterr().out


def queues(made):
    return {queue.path: queue for one in made.partitions for queue in walk_queues(one.root) if not queue.queues}


def test_the_result_has_no_errors_and_no_warnings(site, tmp_path, capsys):
    made, _, checked = imported(site, tmp_path, capsys)
    named = {group for queue in queues(made).values() for group in parse_acl(queue.submitacl).groups}
    warnings = [line for line in checked.splitlines() if line.startswith("warning") and not _of_group(line, named)]
    assert warnings == []


def _of_group(line, names):
    """Whether it warns that this machine has none of the groups, as Debian's has."""
    return "nor this machine has" in line and any(f"'{name}'" in line for name in names)


def test_each_field_of_a_partition_is_in_the_result_or_in_a_remark(site, tmp_path, capsys):
    _, told, _ = imported(site, tmp_path, capsys)
    lines = re.sub(r"\\\n\s*", "", (SITES / site / "slurm.conf").read_text()).splitlines()
    fields = [pair for line in lines if line.startswith("PartitionName=") for pair in line.split()[1:]]
    kept = {
        "Nodes", "Default", "State", "DefaultTime", "PriorityTier", "PriorityJobFactor", "QOS", "AllowGroups",
        "TRESBillingWeights", "OverSubscribe=NO", "PreemptMode=OFF", "PreemptMode=off", "MaxTime=INFINITE",
    }  # fmt: skip
    lost = [pair for pair in fields if pair.partition("=")[0] not in kept and pair not in kept]
    missing = [pair for pair in lost if pair.lower() not in told.lower()]
    assert missing == []


def test_a_small_lab(tmp_path, capsys):
    made, told, _ = imported("lab", tmp_path, capsys)
    found = queues(made)
    assert parse_acl(found["root.debug"].submitacl).groups == {"staff", "users"}
    assert found["root.debug"].properties.priority_offset > sum(made.settings.priority.weights.values())
    assert (found["root.gpu"].submitacl, found["root.default"].submitacl) == ("*", "*")
    assert made.settings.admission.unknown_association == "zero"
    assert made.settings.scheduling.default_time_limit_s == 4 * 3600
    assert set(made.settings.nodes.known) == {"gpu1", "gpu2"}
    assert "slurm.conf:38: partition 'debug': no equivalent in rankd for MaxNodes=1; " in told
    assert "slurm.conf:38: partition 'debug': no equivalent in rankd for Nodes=gpu2: " in told
    assert "slurm.conf:36: node 'gpu2': Features=old,nvme: start its agent with --labels old=yes,nvme=yes" in told
    assert "import: topology.conf is left out; " in told


def test_a_university_cluster(tmp_path, capsys):
    made, told, _ = imported("university", tmp_path, capsys)
    found = queues(made)
    assert {name: parse_acl(found[f"root.{name}"].submitacl).users for name in ("gpu", "long")} == {
        "gpu": {"alice", "bob", "dan", "erin"}, "long": {"alice", "bob", "dan", "erin", "olga", "root"},
    }  # fmt: skip
    assert found["root.admin"].submitacl == found["root.retired"].submitacl == " "
    assert {qos.name: qos.users for qos in made.settings.qos} == {
        "normal": None, "high": ["alice", "bob", "erin"], "gpupart": [],
    }  # fmt: skip
    assert [(one.name, [queue.name for queue in one.root.queues]) for one in made.partitions][1] == ("gpu", ["gpu"])
    [of_each] = found["root.gpu"].limits
    assert (found["root.gpu"].maxapplications, of_each.maxapplications, of_each.maxresources) == (60, 8, {"gpu": 16})
    admission = made.settings.admission
    assert (admission.unknown_association, admission.submitters) == ("refuse", "users")
    assert (admission.admins, admission.operators) == (["root"], ["olga"])
    assert made.settings.privacy.jobs == "own"
    for setting in ("JobSubmitPlugins", "Licenses", "Prolog", "PreemptType", "Include /etc/slurm/nodes-extra.conf"):
        assert re.search(rf"^slurm.conf:\d+: {setting}\b", told, re.MULTILINE), setting
    assert "login[1-2]: in no partition that users may use" in told


def test_a_box_of_gpus(tmp_path, capsys):
    made, told, _ = imported("box", tmp_path, capsys)
    assert parse_acl(queues(made)["root.owners"].submitacl).groups == {"staff"}
    assert made.settings.admission.unknown_association == "zero"
    assert made.settings.priority.policy == "fcfs"
    assert "slurm.conf:9: PreemptMode = SUSPEND,GANG: no equivalent in rankd; rankd ends no job" in told


def test_limits_that_slurm_does_not_enforce_are_left_out_and_said(tmp_path, capsys):
    for name in ("uni.cfg", "qos.txt", "slurm.conf"):
        text = (SITES / "university" / name).read_text()
        (tmp_path / name).write_text(text.replace("AccountingStorageEnforce=associations,limits,qos,safe", ""))
    files = [str(tmp_path / name) for name in ("uni.cfg", "qos.txt", "slurm.conf")]
    assert main(["import", "slurm", *files, "-o", str(tmp_path / "etc")]) == 0
    made = load_configuration(tmp_path / "etc")
    assert "Slurm enforces no limits (AccountingStorageEnforce), so 10 limits are left out" in capsys.readouterr().out
    assert not [queue for queue in queues(made).values() if queue.max or queue.limits or queue.maxapplications]
    assert made.settings.admission.unknown_association == "zero"
    assert [qos.users for qos in made.settings.qos] == [None, None, None]


def test_limits_of_accounts_become_those_of_groups_where_no_list_names_groups_of_the_machine(tmp_path, capsys):
    (tmp_path / "slurm.conf").write_text("AccountingStorageEnforce=limits\nPriorityWeightAge=1\n")
    (tmp_path / "uni.cfg").write_text((SITES / "university" / "uni.cfg").read_text())
    files = [str(tmp_path / name) for name in ("uni.cfg", "slurm.conf")]
    assert main(["import", "slurm", *files, "-o", str(tmp_path / "etc"), "-q"]) == 0
    capsys.readouterr()
    made = load_configuration(tmp_path / "etc")
    root = made.partitions[0].root
    assert [(one.groups, one.maxapplications) for one in root.limits if one.groups] == [(("ml",), 40)]
    assert made.groups == {"dan": ("ml",), "erin": ("ml",)}
