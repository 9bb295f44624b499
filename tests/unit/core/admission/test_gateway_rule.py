import pytest

from rankd.core.admission.gateway_rule import check_gateway, check_page
from rankd.core.errors import Refused

TRUSTED = ("n1", "n2")


@pytest.mark.parametrize("gateway", TRUSTED)
def test_a_trusted_node_names_ordinary_users(gateway):
    check_gateway(gateway, "alice", TRUSTED, has_rights=False)


@pytest.mark.parametrize(
    ("gateway", "user", "has_rights", "code"),
    [("n3", "alice", False, "unknown_gateway"), ("", "alice", False, "unknown_gateway"),
     ("head", "alice", False, "unknown_gateway"), ("n1", "carol", True, "not_permitted"),
     ("n1", "root", False, "not_permitted"), ("n3", "root", True, "unknown_gateway")],
)  # fmt: skip
def test_others_name_nobody_and_a_node_names_no_administrator(gateway, user, has_rights, code):
    with pytest.raises(Refused) as refused:
        check_gateway(gateway, user, TRUSTED, has_rights=has_rights)
    assert (refused.value.code, refused.value.status) == (code, 403)


def test_a_node_lets_nobody_in_whose_access_was_revoked():
    with pytest.raises(Refused, match="an administrator has revoked the access of 'alice'") as refused:
        check_gateway("n1", "alice", TRUSTED, {"alice"}, has_rights=False)
    assert (refused.value.code, refused.value.status) == ("revoked", 403)
    check_gateway("n1", "bob", TRUSTED, {"alice"}, has_rights=False)


@pytest.mark.parametrize(
    ("user", "signs_in_others", "code"),
    [
        ("alice", False, "unknown_gateway"), ("root", True, "unknown_gateway"), ("root", False, "unknown_gateway"),
        ("bob", True, "revoked"),
    ],
)  # fmt: skip
def test_the_page_names_nobody_whom_it_can_not_have_signed_in(user, signs_in_others, code):
    with pytest.raises(Refused) as refused:
        check_page(user, "owner", {"bob"}, signs_in_others=signs_in_others)
    assert (refused.value.code, refused.value.status) == (code, 403)


def test_the_page_names_its_owner_and_others_who_sign_in_at_a_proxy_or_by_pam():
    check_page("owner", "owner", (), signs_in_others=False)
    check_page("alice", "owner", {"bob"}, signs_in_others=True)
