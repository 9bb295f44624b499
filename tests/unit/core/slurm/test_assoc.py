"""The tables of sacctmgr and sshare."""

import pytest

from rankd.core.model.association import Association
from rankd.core.slurm.assoc import parse_associations, parse_shares
from rankd.core.slurm.reading import Reading

TREE = """Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|QOS|Def QOS|GrpTRESRunMins
hpc|root|||1||||normal|normal|
hpc| root|root||1||||normal||
hpc| physics|||60|5||cpu=64|normal,high||
hpc|  optics|||parent||||normal||
hpc|   optics|carol||2||||normal||
hpc|  physics|alice|gpu|2147483647||||normal||
hpc|  physics|alice|cpu|4||||normal||
hpc| biology|||40||3||normal||
"""
SSHARE = """Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins
root|||0.000000|1000||1.000000||||cpu=0
 root|root|1|0.001661|0|0.000000|0.000000|1.000000|inf||cpu=0
 batch||100|0.166113|300|0.300000|0.300000||0.553710||cpu=0
  batch|charlie|1|1.000000|300|0.300000|1.000000|0.500000|1.000000||cpu=0
 research||500|0.830565|700|0.700000|0.700000||1.186521||cpu=0
  research|alice|parent|0.500000|400|0.400000|0.571429|0.750000|0.875000||cpu=0
"""


def read(parse, text, *arguments):
    reading = Reading("table")
    return parse(text, reading, *arguments), reading


def test_the_tree_is_in_the_blanks():
    found, reading = read(parse_associations, TREE)
    assert reading.problems == []
    assert found.associations == (
        Association(account="root", user="root"),
        Association(account="physics", parent="root", shares=60, priority=5),
        Association(account="optics", parent="physics", shares="parent"),
        Association(account="optics", user="carol", shares=2),
        Association(account="physics", user="alice", shares="parent"),
        Association(account="biology", parent="root", shares=40),
    )
    assert (found.cluster, found.default_qos) == ("hpc", "normal")


def test_limits_and_lists_of_qos_are_kept_for_the_conversion():
    remarks = [remark.message for remark in read(parse_associations, TREE)[1].remarks]
    assert not [message for message in remarks if "no equivalent" in message]
    found = read(parse_associations, TREE)[0]
    assert [(limit.owner, str(limit)) for limit in found.account_limits] == [
        ("physics", "GrpTRES=cpu=64"), ("biology", "GrpJobs=3"),
    ]  # fmt: skip
    assert found.qos_lists["physics", None] == "normal,high"


def test_columns_in_any_order_and_bars_at_the_end_give_the_same_tree():
    header, *lines = [line.split("|") for line in TREE.splitlines()]
    turned = "".join("|".join([*reversed(cells), ""]) + "\n" for cells in (header, *lines))
    assert read(parse_associations, turned)[0] == read(parse_associations, TREE)[0]


def test_parents_may_be_in_a_column():
    text = "Account|ParentName|User|Fairshare\nroot|||1\na|root||2\nb|a||3\nb||u|4\n"
    found, reading = read(parse_associations, text)
    assert reading.problems == []
    assert [(entry.account, entry.parent, entry.user, entry.shares) for entry in found.associations] == [
        ("a", "root", None, 2), ("b", "a", None, 3), ("b", None, "u", 4),
    ]  # fmt: skip


def test_one_cluster_of_several():
    text = "Cluster|Account|User|Share\nx|root||1\nx| a||1\ny|root||1\ny| b||1\n"
    assert [entry.account for entry in read(parse_associations, text, "y")[0].associations] == ["b"]
    assert "choose one with --cluster" in read(parse_associations, text)[1].problems[0].message
    assert "has no cluster 'z'; it has: x, y" in read(parse_associations, text, "z")[1].problems[0].message


def test_sshare_gives_shares_and_the_users_usage():
    found, reading = read(parse_shares, SSHARE)
    assert reading.problems == []
    assert found.associations == (
        Association(account="root", user="root"),
        Association(account="batch", parent="root", shares=100),
        Association(account="batch", user="charlie", usage=300),
        Association(account="research", parent="root", shares=500),
        Association(account="research", user="alice", shares="parent", usage=400),
    )


def test_usage_of_nobody_listed_is_said():
    [remark] = read(parse_shares, SSHARE)[1].remarks
    assert remark.line == 6
    assert remark.message.startswith("account 'research': 300 of its usage belongs to no listed user")


@pytest.mark.parametrize(
    ("parse", "text", "line", "message"),
    [
        (
            parse_associations,
            "Account|User|Share\n a||1\n",
            2,
            "has 1 leading blanks, but there is no account above it",
        ),
        (
            parse_associations,
            "Account|User|Share\nroot||1\n  a||1\n",
            3,
            "has 2 leading blanks, but there is no account above it",
        ),
        (parse_associations, "Account|User|Share\nroot||1\na||1\n", 0, "has no parents of accounts"),
        (parse_associations, "Account|User|Share\nroot||1\n a|u\n", 3, "has 2 cells, but the header has 3"),
        (parse_associations, "Account|User|Share\nroot||1\n a|u|1\n", 3, "is listed before the account"),
        (parse_associations, "Account|User|Share\nroot||1\n a||1\n a||1\n", 4, "is listed twice, first in line 3"),
        (parse_associations, "Account|User|Share\nroot||1\n a||nan\n", 3, "'nan' is not a number"),
        (parse_associations, "Account|User\nroot|\n", 1, "needs the column Share"),
        (parse_shares, "Account|User|RawShares|RawUsage\nroot||1|0\n a||1|-5\n", 3, "'-5' is not a number"),
        (parse_shares, "Account|User|RawUsage\nroot||1\n", 1, "no column 'rawshares'"),
        (parse_shares, "\n\n", 0, "has no lines"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(parse, text, line, message):
    problem = read(parse, text)[1].problems[0]
    assert problem.line == line
    assert message in problem.message
