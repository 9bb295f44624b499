"""What is tried at a broker: everything that a role may do, and what it may not."""

import pytest

from rankd.identity.expectation import ANOTHER, expectations, matches
from rankd.identity.reach import admin_imports, node_imports, user_imports
from rankd.identity.site import Role

ROLES = {Role.ADMIN: admin_imports, Role.USER: user_imports, Role.NODE: node_imports}


@pytest.mark.parametrize(
    ("pattern", "subject", "is_one"),
    [
        ("a.b", "a.b", True), ("a.b", "a.c", False), ("a.*", "a.b", True), ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True), ("a.>", "a", False), ("*.b", "a.b", True), ("a.b", "a.b.c", False),
    ],
)  # fmt: skip
def test_subjects_and_patterns(pattern, subject, is_one):
    assert matches(pattern, subject) is is_one


@pytest.mark.parametrize("role", ROLES)
def test_each_import_is_tried_and_no_other_is_permitted(role):
    imports = ROLES[role]("", "alice")
    tried = expectations(role, "alice", "word")
    permitted = [one for one in tried if one.is_permitted]
    assert len(permitted) == len(imports)
    assert all(matches(one.subject, found.subject) for one, found in zip(imports, permitted, strict=True))
    kinds = {"ask": "service", "hear": "stream"}
    for one in tried:
        is_imported = any(i.type == kinds[one.what] and matches(i.subject, one.subject) for i in imports)
        assert is_imported is one.is_permitted, one


@pytest.mark.parametrize("role", ROLES)
def test_no_subject_is_a_pattern_and_none_is_tried_twice(role):
    tried = expectations(role, "a.*", "word")
    assert not [one for one in tried if set(one.subject.split(".")) & {"*", ">", ""}]
    assert len({(one.what, one.subject) for one in tried}) == len(tried)


def test_a_user_is_tried_as_another_user_a_node_and_an_administrator():
    forbidden = {one.subject for one in expectations(Role.USER, "alice", "word") if not one.is_permitted}
    assert {
        f"rankd.v1.user.{ANOTHER}.word", "rankd.v1.admin.alice.word", "rankd.v1.enqueue.alice",
        "rankd.v1.node.alice.take", f"rankd.v1.event.job.{ANOTHER}", "rankd.v1.internal.committed",
        "$JS.API.STREAM.INFO.RANKD_EVENTS", "rankd.v1.deadletter.alice",
    } <= forbidden  # fmt: skip
