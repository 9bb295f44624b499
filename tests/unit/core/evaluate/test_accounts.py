"""Whose account: the three rules for users without an association."""

import pytest

ROWS = [
    {"account": "physics", "shares": 3},
    {"account": "physics", "user": "alice"},
    {"account": "optics", "parent": "physics"},
    {"account": "optics", "user": "alice", "default": True},
    {"account": "optics", "user": "bob"},
]
WEIGHTS = {"weights": {"fairshare": 1000}}


def decided(decide, rule, *jobs, rows=ROWS):
    rules = {} if rule is None else {"unknown_association": rule}
    numbered = [{"id": place, **job} for place, job in enumerate(jobs)]
    return decide(jobs=numbered, associations=rows, priority=WEIGHTS, **rules)


@pytest.mark.parametrize("rule", [None, "zero"])
@pytest.mark.parametrize("job", [{"user": "eve"}, {"user": "bob", "account": "physics"}, {}])
def test_zero_gives_fair_share_0_and_changes_nobody_elses(decide, rule, job):
    decision = decided(decide, rule, job, {"user": "bob"})
    assert decision.by_id[0]["priority"] == 0
    assert decision.shares == decided(decide, rule, {"user": "bob"}).shares


def test_refuse_rejects_who_is_in_no_account(decide):
    decision = decided(decide, "refuse", {"user": "eve"}, {"user": "bob", "account": "physics"}, {"user": "bob"})
    assert decision.codes == {0: "unknown_association", 1: "unknown_association"}


def test_default_puts_a_newcomer_into_the_account_default_with_one_share(decide):
    decision = decided(decide, "default", {"user": "eve"}, {"user": "eve"}, {"user": "bob"})
    assert decision["rejected"] == []
    assert decision.shares["default", "eve"]["shares_norm"] == pytest.approx(1 / 4)
    assert decision.by_id[0]["priority"] > 0


def test_default_leaves_the_tree_alone_while_nobody_needs_it(decide):
    assert ("default", None) not in decided(decide, "default", {"user": "bob"}).shares


def test_default_is_no_way_into_other_accounts(decide):
    decision = decided(decide, "default", {"user": "eve", "account": "physics"}, {"user": "eve", "account": "default"})
    assert decision.codes == {0: "unknown_association"}


def test_a_job_without_account_goes_to_its_users_default_one(decide):
    priority = {"weights": {"fairshare": 1000}, "fairshare": {"algorithm": "classic"}}
    rows = [*ROWS, {"account": "optics", "user": "carol", "usage": 9.0}]
    decision = decide(jobs=[{"id": 1, "user": "alice"}], associations=rows, priority=priority)
    assert decision.factor(1, "fairshare")["value"] == decision.shares["optics", "alice"]["fairshare"]


def test_an_unknown_account_is_refused_under_every_rule(decide):
    for rule in ("refuse", "default", "zero"):
        assert decided(decide, rule, {"user": "bob", "account": "x"}).codes == {0: "unknown_account"}


def test_the_whole_tree_is_listed_as_it_is_shown(decide):
    assert list(decided(decide, None).shares) == [
        ("root", None), ("physics", None), ("physics", "alice"),
        ("optics", None), ("optics", "alice"), ("optics", "bob"),
    ]  # fmt: skip


def test_infinite_level_fair_share_is_a_text(decide):
    rows = decided(decide, None).shares
    assert rows["optics", "bob"]["level_fairshare"] == "inf"
    assert rows["root", None]["level_fairshare"] is None
    assert rows["root", None]["fairshare"] is None
