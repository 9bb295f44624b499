"""Slurm's formats: any tree survives being written and read; any text is either read or refused with a line."""

import string

from hypothesis import given
from hypothesis import strategies as st

from rankd.config.accounts import read_accounts
from rankd.config.plugin import factor_names
from rankd.config.queues import read_queues
from rankd.config.settings import read_settings
from rankd.core.errors import ConfigurationError
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.slurm.assoc import parse_associations, parse_shares
from rankd.core.slurm.config import parse_config
from rankd.core.slurm.conversion import SourceText, convert_slurm
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import PARENT, Reading
from rankd.core.slurm.sacctmgr_dump import parse_dump
from rankd.core.slurm.writing import write_files

NAMES = st.text(string.ascii_lowercase + string.digits + "_.-'", min_size=1, max_size=6)
SHARES = st.one_of(st.just("parent"), st.integers(0, 10**6).map(float), st.just(0.5))
SNIPPETS = [
    "Cluster - 'x':Fairshare=1\n", "Parent - 'root'\n", "Account - 'a':Description='o'neill':Fairshare=3\n",
    "User - 'u':DefaultAccount='a'", "QOS - 'q':Priority=5", ":", "'", '"', "=", "\\", "#", "\n", "|", " ",
    "  a|u|1|0\n",
    "Account|User|RawShares|RawUsage\n", "Account|User|Share\n", "root||1|0\n", "Name|Priority|UsageFactor\n",
    "q|1|2\n",
    "PriorityWeightAge = 5\n", "PriorityMaxAge = 7-0\n", "PartitionName=a PriorityJobFactor=3\n",
    "NodeName=n[1-2] CPUs=2 RealMemory=9 Gres=gpu:a100:4(S:0-1),nic\n", "NodeName=DEFAULT RealMemory=5\n",
    "GresTypes=gpu,mps\n", "AutoDetect=off\n", "Name=gpu File=/dev/nvidia0\n", ":GrpTRES=gres/gpu:a100=4", "cpu=4,",
    "gres/gpu=2", "PartitionName=b QoS=q\n", "Name|Priority|GrpTRES|MaxTRESPU\nq|1|gres/gpu=2,mem=4G|gres/gpu=3\n",
    "PriorityWeightTRES = CPU=1,GRES/gpu=2\n", "nan", "inf", "-1", "2147483647", "\x00", "\u2028", "é",
]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join))


@st.composite
def trees(draw):
    """Associations with parents before children, as a dump has them."""
    accounts = draw(st.lists(NAMES.filter(lambda name: name != "root"), unique=True, max_size=6))
    found = []
    for place, account in enumerate(accounts):
        parent = draw(st.sampled_from(["root", *accounts[:place]]))
        found.append(Association(account=account, parent=parent, shares=draw(SHARES)))
    for account in ["root", *accounts]:
        users = draw(st.lists(NAMES, unique=True, max_size=3))
        found += [Association(account=account, user=user, shares=draw(SHARES)) for user in users]
    return found


def written(associations):
    """As sacctmgr writes them."""
    lines = ["Cluster - 'x'"]
    for entry in associations:
        shares = PARENT if entry.shares == "parent" else f"{entry.shares:g}"
        above, kind, name = (entry.parent, "Account", entry.account) if entry.user is None else (
            entry.account, "User", entry.user)  # fmt: skip
        lines += [f"Parent - '{above}'", f"{kind} - '{name}':Description='d':Fairshare={shares}"]
    return "\n".join(lines) + "\n"


@given(trees())
def test_any_tree_survives_being_dumped_and_read(associations):
    reading = Reading("x")
    found = parse_dump(written(associations), reading)
    assert reading.problems == []
    assert list(found.associations) == associations
    AccountTree.build(found.associations)


@given(TEXTS)
def test_any_text_is_read_or_refused(text):
    for parse in (parse_dump, parse_associations, parse_shares, parse_qos, parse_config):
        reading = Reading("x")
        parse(text, reading)
        assert all(0 <= problem.line <= text.count("\n") + text.count("\u2028") + 40 for problem in reading.problems)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_files_give_a_configuration_that_can_be_read_or_their_problems(texts):
    try:
        found = convert_slurm([SourceText(name=f"f{n}", text=text, at=0.0) for n, text in enumerate(texts)])
    except ConfigurationError as error:
        told = error.problems
    else:
        told = check(found)
    assert told


@given(trees())
def test_any_tree_survives_being_imported(associations):
    found = convert_slurm([SourceText(name="x.cfg", text=written(associations), at=0.0)])
    assert check(found)
    assert set(found.associations) == set(associations)


def check(found):
    """The files can be read again and say the same of the tree."""
    files = write_files(found)
    assert read_settings(files["rankd.toml"], factor_names()).default_qos == found.default_qos
    assert read_queues(files["queues.yaml"]).partitions
    again = read_accounts(files["accounts.yaml"]).associations
    assert {plain(entry) for entry in again} == {plain(entry) for entry in found.associations}
    return files


def plain(entry):
    return entry.account, entry.user, entry.parent, entry.shares, entry.priority, entry.default
