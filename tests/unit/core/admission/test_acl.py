"""Access lists. The examples are those of Hadoop YARN's manual ("YARN ACL syntax"), whose format YuniKorn uses."""

import pytest

from rankd.core.admission.acl import NOBODY, parse_acl


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        ("john,jane HR", [("john", []), ("jane", []), ("ann", ["HR"])], [("ann", []), ("HR", []), ("ann", ["john"])]),
        (" my_group", [("ann", ["my_group"])], [("my_group", []), ("ann", ["another"])]),
        (" group_1,group_2", [("ann", ["group_2"])], [("ann", ["group_6"])]),
        ("fred,alice,haley datascience,marketing", [("haley", []), ("ann", ["marketing"])], [("ann", ["HR"])]),
        ("*", [("ann", []), ("", ["HR"])], []),
    ],
)
def test_published_lists_allow_whom_they_name(text, allowed, refused):
    acl = parse_acl(text)
    assert all(acl.allows(user, groups) for user, groups in allowed)
    assert not any(acl.allows(user, groups) for user, groups in refused)


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_list_allows_nobody(text):
    assert parse_acl(text) == NOBODY


def test_a_path_allows_whom_any_of_its_lists_allows():
    path = parse_acl("john").with_more(parse_acl(" HR"))
    assert path.allows("john", [])
    assert path.allows("ann", ["HR"])
    assert not path.allows("ann", [])
    assert path.with_more(parse_acl("*")).allows("ann", [])
    assert path.with_more(NOBODY) is path
