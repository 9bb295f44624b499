"""accounts.yaml: the groups of users, and what is wrong with them. The tree itself is in core/fairshare."""

import pytest

from rankd.config.accounts import read_accounts
from rankd.core.errors import ConfigurationError


def test_groups_are_known_by_user():
    text = "groups: [{name: staff, users: [alice, bob]}, {name: dev, users: [alice, alice]}, {name: empty}]"
    assert read_accounts(text).groups == {"alice": ("dev", "staff"), "bob": ("staff",)}


def test_without_the_section_nobody_is_in_any():
    assert read_accounts("accounts: [{name: physics, users: [{name: alice}]}]").groups == {}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("groups: [{name: a b}]", "groups[0].name"),
        ("groups: [{name: x}, {name: x}]", "groups[1].name"),
        ("groups: [{name: '*'}]", "groups[0].name"),
        ("groups: [{name: x, user: [alice]}]", "groups[0].user"),
        ("groups: {x: [alice]}", "groups"),
    ],
)
def test_what_is_no_group_is_refused_with_its_place(text, path):
    with pytest.raises(ConfigurationError) as caught:
        read_accounts(text)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_all_that_is_no_account_is_told_at_once():
    text = "accounts: [{name: a, shares: .nan, share: 1}, {shares: x, users: [{name: u, priority: high}]}]\nuser: []"
    with pytest.raises(ConfigurationError) as caught:
        read_accounts(text)
    assert sorted(problem.path for problem in caught.value.problems) == [
        "accounts[0].share", "accounts[0].shares", "accounts[1].name", "accounts[1].shares",
        "accounts[1].users[0].priority", "user",
    ]  # fmt: skip
