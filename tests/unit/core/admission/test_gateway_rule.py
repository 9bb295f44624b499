import pytest

from rankd.core.admission.gateway_rule import check_gateway
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
