"""Access lists of queues: never open to a user whom Slurm kept out."""

import pytest

from rankd.core.admission.acl import parse_acl
from rankd.core.model.association import Association
from rankd.core.slurm.partition import Access, Partition
from rankd.core.slurm.queue_access import EVERYONE, NOBODY, members, submit_list
from rankd.core.slurm.reading import Reading

TREE = [
    Association(account="physics"), Association(account="optics", parent="physics"), Association(account="students"),
    Association(account="physics", user="alice"), Association(account="optics", user="bob"),
    Association(account="students", user="sam"), Association(account="students", user="alice"),
]  # fmt: skip
QOS = {"normal": None, "high": frozenset({"alice"}), "low": frozenset({"sam"})}


def listed(tree=TREE, **access):
    reading = Reading("slurm.conf")
    partition = Partition(name="p", line=7, access=Access(**access))
    return submit_list(partition, members(tree, QOS), reading), [str(remark) for remark in reading.remarks]


def test_without_rules_a_queue_is_open_to_all():
    assert listed() == (EVERYONE, [])


def test_groups_stay_groups():
    text, remarks = listed(groups=("staff", "gpu-users"))
    assert parse_acl(text).groups == {"staff", "gpu-users"}
    assert remarks == []


def test_accounts_are_their_users_and_those_of_accounts_below():
    text, [remark] = listed(accounts=("physics",))
    assert parse_acl(text).users == {"alice", "bob"}
    assert remark.startswith("slurm.conf:7: partition 'p': AllowAccounts=physics: its submitacl has the 2 users")


def test_a_user_with_another_account_is_not_denied():
    assert parse_acl(listed(denied_accounts=("students",))[0]).users == {"alice", "bob"}
    assert parse_acl(listed(denied_accounts=("physics",))[0]).users == {"sam", "alice"}


def test_a_qos_is_the_users_who_may_use_it():
    text, [remark] = listed(qos=("high", "low"))
    assert parse_acl(text).users == {"alice", "sam"}
    assert "a queue can't ask for a QoS" in remark
    assert listed(qos=("normal",))[0] == EVERYONE
    assert parse_acl(listed(denied_qos=("normal", "low"))[0]).users == {"alice"}
    assert parse_acl(listed(qos=("high",), accounts=("students",))[0]).users == {"alice"}


@pytest.mark.parametrize(
    "access",
    [
        {"closed": ("RootOnly=YES",)}, {"groups": ("staff",), "accounts": ("physics",)}, {"accounts": ("nobodys",)},
        {"qos": ("gone",)}, {"groups": ("bad name",)},
    ],
)  # fmt: skip
def test_a_rule_that_can_not_be_written_closes_the_queue_and_says_so(access):
    text, remarks = listed(**access)
    assert text == NOBODY
    assert remarks


def test_rules_about_accounts_need_the_accounts():
    text, [remark] = listed(tree=[], accounts=("physics",))
    assert text == NOBODY
    assert "give the output of `sacctmgr dump` as well" in remark


def test_a_name_that_no_list_can_have_is_left_out():
    odd = [Association(account="a"), *(Association(account="a", user=user) for user in ("a b", "*", "x,y", "ok"))]
    text, remarks = listed(tree=odd, accounts=("a",))
    assert parse_acl(text).users == {"ok"}
    assert any("3 users are left out" in remark for remark in remarks)
