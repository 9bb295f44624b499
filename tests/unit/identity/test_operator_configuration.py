import pytest

from rankd.core.errors import Refused
from rankd.identity.key import KeyKind, new_key
from rankd.identity.operator_configuration import preload, read_operator, signed_accounts
from rankd.identity.site import Role, Site
from rankd.identity.static_configuration import Member

SITE = Site(bytes(32))
MEMBERS = [Member(Role.USER, "alice"), Member(Role.NODE, "n1")]


def test_the_operator_that_is_given_signs_the_accounts_of_the_site():
    operator = new_key(KeyKind.OPERATOR)
    read = read_operator(f"-----BEGIN OPERATOR NKEY SEED-----\n{operator.seed}\n-----END\n")
    assert read.public == operator.public
    accounts = signed_accounts(SITE, MEMBERS, read, 100.0)
    whose = [(Role.SERVICES, ""), (Role.SESSIONS, ""), *MEMBERS]
    assert [one.public for one in accounts] == [SITE.account_of(*one) for one in whose]
    assert not {one.token for one in accounts} & {SITE.account(*one, 100.0).token for one in whose}
    lines = preload(accounts).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("resolver_preload {", "}", 6)
    assert operator.seed not in preload(accounts)


@pytest.mark.parametrize("kind", [KeyKind.ACCOUNT, KeyKind.USER])
def test_another_kind_of_key_is_refused(kind):
    with pytest.raises(Refused, match="begins with SO"):
        read_operator(new_key(kind).seed)
