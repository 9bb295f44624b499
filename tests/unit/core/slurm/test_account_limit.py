"""Limits of accounts: kept for the group of the account's users, if these have no other account."""

from rankd.core.model.association import Association
from rankd.core.slurm.account_limit import account_limits
from rankd.core.slurm.limit import GroupLimit
from rankd.core.slurm.queue_access import members
from rankd.core.slurm.reading import Limit, Reading

TREE = [
    Association(account="lab"), Association(account="optics", parent="lab"), Association(account="other"),
    Association(account="lab", user="ann"), Association(account="optics", user="bob"),
    Association(account="other", user="eve"), Association(account="other", user="ann"),
    Association(account="optics", user="carl"), Association(account="lab", user="carl"),
]  # fmt: skip


def limits(*written, groups=()):
    reading = Reading("dump")
    found = [(Limit(owner=owner, line=5, key=key, text=text), reading) for owner, key, text in written]
    return account_limits(members(TREE, {}).accounts_of, found, groups), [str(one) for one in reading.remarks]


def test_users_with_other_accounts_make_a_limit_impossible():
    found, [first, second] = limits(("optics", "grptres", "cpu=8,gres/gpu:a100=2"), ("other", "grpjobs", "3"))
    assert found == ()
    assert first == (
        "dump:5: account 'optics': GrpTRES=cpu=8,gres/gpu:a100=2 is left out, since carl has other accounts too; write"
        " a limit for a group of its users into queues.yaml"
    )
    assert "account 'other': GrpJobs=3 is left out, since ann has other accounts too" in second


def test_users_of_accounts_below_belong_to_the_account():
    reading = Reading("dump")
    own = [one for one in TREE if one.account != "other"]
    limit = Limit(owner="lab", line=5, key="grptres", text="cpu=8")
    jobs = Limit(owner="lab", line=5, key="grpjobs", text="3")
    found = account_limits(members(own, {}).accounts_of, [(limit, reading), (jobs, reading)], ())
    assert found == (GroupLimit("lab", ("ann", "bob", "carl"), {"vcore": 8}, 3),)
    assert reading.remarks == []


def test_groups_of_the_machine_and_of_accounts_are_not_mixed():
    found, [remark] = limits(("other", "grptres", "cpu=8"), groups=("staff",))
    assert found == ()
    assert "access lists name (staff)" in remark


def test_an_account_without_users_and_a_name_that_no_group_has_are_named():
    assert "the account has no users" in limits(("empty", "grptres", "cpu=8"))[1][0]
    assert "a group can't have this name" in limits(("0day", "grptres", "cpu=8"))[1][0]
