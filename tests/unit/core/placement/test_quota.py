"""Accounts of queues, users and groups. Nothing may be charged that a maximum does not leave."""

from builder import kind, shape, views

from rankd.core.model.queue import Limit
from rankd.core.model.reason_code import QUEUE_QUOTA, USER_LIMIT
from rankd.core.placement.problem import Tenant
from rankd.core.placement.queue_index import QueueIndex
from rankd.core.placement.quota import Account, QuotaBook, charge, most_within, over, places_within

ROOT, A = 0, 1


def book(of_root, of_a, used=None, tenants=()):
    return QuotaBook(QueueIndex(views(("root", of_root), ("root.a", of_a))), used or {}, tenants)


def test_what_is_charged_is_charged_on_the_whole_path():
    quotas = book({"maximum": {"vcore": 3000}}, {"maximum": {"vcore": 9000}}, used={ROOT: {"vcore": 1000}})
    accounts = quotas.of(A, kind(shape()))
    assert [account.name for account in accounts] == ["root.a", "root"]
    assert over(accounts, {"vcore": 2000}, None) is None
    charge(accounts, {"vcore": 2000}, None)
    assert over(accounts, {"vcore": 1}, None).account.name == "root"
    assert quotas.plain_room(A) == {"vcore": 0}


def test_a_type_without_a_maximum_is_not_limited():
    accounts = book({"maximum": {"vcore": 0}}, {}).of(A, kind(shape()))
    assert over(accounts, {"gpu": 10**12}, None) is None
    assert over(accounts, {"vcore": 1}, None).blocked == "vcore"


def test_users_under_a_star_have_an_account_each_and_groups_share_one():
    limits = (Limit(users=("*",), maxresources={"vcore": 1000}), Limit(groups=("*",), maxresources={"vcore": 1500}))
    quotas = book({}, {"limits": limits})
    ann, bob = (quotas.of(A, kind(shape(), user=user, groups=("dev",))) for user in ("ann", "bob"))
    charge(ann, {"vcore": 1000}, None)
    blocked = over(bob, {"vcore": 1000}, None)
    assert (blocked.account.reason, blocked.account.name) == (USER_LIMIT, "group * in root.a")
    assert over(bob, {"vcore": 500}, None) is None
    assert quotas.plain_room(A) is None


def test_running_jobs_count_for_users_and_not_twice_for_queues():
    tenant = Tenant(queue=A, amount={"vcore": 600}, user="ann")
    limits = (Limit(users=("ann",), maxresources={"vcore": 1000}),)
    quotas = book({}, {"limits": limits, "maximum": {"vcore": 1000}}, {A: {"vcore": 600}}, [tenant])
    accounts = quotas.of(A, kind(shape(), user="ann"))
    assert [account.reason for account in accounts] == [QUEUE_QUOTA, USER_LIMIT]
    assert [account.room["vcore"] for account in accounts] == [400, 400]


def test_an_application_that_runs_may_start_more_jobs_and_a_new_one_may_not():
    account = Account(QUEUE_QUOTA, "root.a", {}, 1)
    account.charge({}, (A, 5))
    account.charge({}, (A, 5))
    assert account.blocks({}, (A, 5)) is None
    assert account.blocks({}, (A, 6)) == "applications"
    assert account.blocks({}, None) == "applications"
    assert account.explain("applications") == "root.a is at its maximum of 1 running applications"


def test_as_many_nodes_are_taken_as_all_accounts_leave():
    accounts = [Account("", "", {"vcore": 5000}, 0), Account("", "", {"gpu": 1}, 0)]
    assert most_within(accounts, {"vcore": 1000}, 9) == 5
    assert most_within(accounts, {"vcore": 1000, "gpu": 1}, 9) == 1
    assert most_within(accounts, {"vcore": 6000}, 9) == 0
    assert most_within(accounts, {"memory": 1}, 9) == 9


def test_of_unequal_nodes_the_first_are_taken_unless_the_smallest_are_more():
    amounts = [{"vcore": 8}, {"vcore": 2}, {"vcore": 3}, {"vcore": 2}]
    assert places_within({"vcore": 10}, amounts, 2) == [0, 1]
    assert places_within({"vcore": 7}, amounts, 3) == [1, 2, 3]
    assert places_within({"vcore": 1}, amounts, 3) == []


def test_what_reservations_keep_of_a_maximum_is_named():
    account = Account(QUEUE_QUOTA, "root.a", {"vcore": 8000, "gpu": 2}, 2)
    account.charge({"vcore": 4000, "gpu": 1}, None)
    account.charge({"vcore": 4000}, None, keeps=True)
    kept = "of it is kept for jobs before it, which have reservations"
    assert account.explain("vcore") == f"root.a is at its maximum of vcore (8); 4 {kept}"
    assert account.explain("applications") == f"root.a is at its maximum of 2 running applications; 1 {kept}"
    assert account.explain("gpu") == "root.a is at its maximum of gpu (2)"
