"""sacctmgr's dump file, as Slurm writes it and as administrators edit it."""

import pytest

from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import Qos
from rankd.core.slurm.reading import Reading
from rankd.core.slurm.sacctmgr_dump import parse_dump

DUMP = r"""# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
QOS - 'standard':Description='general-purpose':MaxWallDurationPerJob=1440:Priority=100
QOS - 'long':Flags='DenyOnLimit':UsageFactor=0.500000
Cluster - 'linux':DefaultQOS='standard':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'cs':Description='Computer Science':Organization='LC':FairShare=399:MaxJobs=4
Account - 'labs':Description='o'neill: lab #3':Fairshare=2147483647
Parent - 'cs'
Account - 'test':GrpTRES=cpu=10,gres/gpu:h100=4:Fairshare=0.5:Priority=7
User - 'lipari':Fairshare=1:DefaultAccount='cs':QOS+='high'
User - 'bob':Coordinator='cs,labs':DefaultAccount='labs'
Parent - 'labs'
User - 'bob':DefaultAccount='labs':Fairshare=parent
"""


def read(text):
    reading = Reading("linux.cfg")
    return parse_dump(text, reading), reading


def problems(text):
    return [(problem.line, problem.message) for problem in read(text)[1].problems]


def test_the_tree_of_a_dump():
    found, reading = read(DUMP)
    assert reading.problems == []
    assert found.associations == (
        Association(account="root", user="root", shares=1, default=True),
        Association(account="cs", parent="root", shares=399),
        Association(account="labs", parent="root", shares="parent"),
        Association(account="test", parent="cs", shares=0.5, priority=7),
        Association(account="cs", user="lipari", shares=1, default=True),
        Association(account="cs", user="bob"),
        Association(account="labs", user="bob", shares="parent", default=True),
    )
    assert found.lines == (7, 8, 9, 11, 12, 13, 15)
    assert found.cluster == "linux"
    assert found.default_qos == "standard"
    assert found.qos == (Qos(name="standard", priority=100), Qos(name="long", usage_factor=0.5))
    AccountTree.build(found.associations)


def test_what_has_no_counterpart_is_named_with_its_line_and_value():
    found, reading = read(DUMP)
    remarks = {remark.line: remark.message for remark in reading.remarks}
    assert 7 not in remarks
    assert found.admins == ("root",)
    assert "MaxJobs=4" in remarks[8]
    assert "Description=Computer Science" in remarks[8]
    assert "Description=o'neill: lab #3" in remarks[9]
    assert "high" in found.qos_lists.values()
    assert "Coordinator=cs,labs; adminacl of a queue" in remarks[13]
    assert 15 not in remarks


def test_options_in_any_order_and_case_give_the_same_account():
    first, _ = read("Cluster - 'x'\nParent - 'root'\nAccount - 'a':Fairshare=3:Priority=2\n")
    other, _ = read('machine - x\nparent - root\nPROJECT - "a":PRIORITY=2:FAIRSHARE=3\n')
    assert first.associations == other.associations


def test_comments_continuations_and_escapes():
    text = "Cluster - 'x' # mine\n\n  # Account - 'no'\nAccount - 'a\\#b':\\\nFairshare=2 # two\n"
    found, reading = read(text)
    assert reading.problems == []
    assert found.associations == (Association(account="a#b", parent="root", shares=2),)


def test_associations_per_partition_are_taken_once_and_that_is_said():
    text = "Cluster - 'x'\nUser - 'u':Partition='a':Fairshare=2\nUser - 'u':Partition='b':Fairshare=5\n"
    found, reading = read(text)
    assert found.associations == (Association(account="root", user="u", shares=2),)
    assert [remark.line for remark in reading.remarks] == [2, 3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Parent - 'gone'", "the parent 'gone' is not an account of an earlier line"),
        ("Account - 'a':Fairshare=many", "shares of account 'a': 'many' is not a number"),
        ("Account - 'a':Fairshare=-1", "shares of account 'a': '-1' is not a number of at least 0"),
        ("Account - 'a':Fairshare=nan", "'nan' is not a number"),
        ("Account - 'a':Fairshare=inf", "'inf' is not a number"),
        ("Account - 'a':Priority=1.5", "'1.5' is not a whole number"),
        ("User - 'ali", "quote that is not closed; is the file whole?"),
        ("Account - 'a':Description='Comp", "quote that is not closed; is the file whole?"),
        ("Accou", "is not a line of a dump"),
        ("Robot - 'r'", "'robot' does not begin a line of a dump"),
        ("User - ''", "the user has no name"),
        ("Cluster - 'y'", "a second cluster 'y'"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(line, message):
    [(number, told)] = problems(f"Cluster - 'x'\n{line}\n")
    assert number == 2
    assert message in told


def test_every_bad_line_is_told_at_once():
    text = "Cluster - 'x'\nAccount - 'a':Fairshare=x\nAccount - 'a'\nUser - 'u'\nUser - 'u'\n"
    assert [number for number, _ in problems(text)] == [2, 3, 5]


def test_a_dump_that_lost_its_beginning_is_refused():
    assert problems("Parent - 'root'\nAccount - 'a'\n") == [
        (0, "no line `Cluster - 'name'`: this is not a complete dump of sacctmgr")
    ]
