"""The accounts of a configuration file say what the tokens of accounts say; tests/integration has a real server."""

import re

import pytest

from rankd.identity.reach import node_imports, services_exports, user_imports
from rankd.identity.site import Role, Site
from rankd.identity.static_configuration import SERVICES, Member, account_name, configuration

SITE = Site(bytes(32))
EVERYBODY = [Member(Role.ADMIN, "root"), Member(Role.USER, "alice"), Member(Role.NODE, "n1")]


def block(text, name):
    return re.search(rf'^  "{re.escape(name)}": \{{\n(.*?)^  \}}$', text, re.MULTILINE | re.DOTALL)[1]


def test_each_has_an_account_with_one_key():
    text = configuration(SITE, EVERYBODY)
    assert re.findall(r'^  "([^"]+)": \{$', text, re.MULTILINE) == [
        "RANKD", "RANKD-sessions", "RANKD-user-root", "RANKD-user-alice", "RANKD-node-n1",
    ]  # fmt: skip
    keys = re.findall(r"nkey: (U[A-Z2-7]{55})", text)
    assert len(set(keys)) == 5, "the services' account has two: of the services and of the notifier"
    assert text.count("jetstream") == 1


def test_it_exports_and_imports_what_the_table_says():
    text = configuration(SITE, EVERYBODY)
    exported = re.findall(r'\{(service|stream): "([^"]+)"', block(text, SERVICES))
    assert exported == [(one.type, one.subject) for one in services_exports()]
    for member, imports in ((EVERYBODY[1], user_imports("", "alice")), (EVERYBODY[2], node_imports("", "n1"))):
        found = re.findall(
            r'\{(service|stream): \{account: "RANKD", subject: "([^"]+)"\}\}', block(text, account_name(member))
        )
        assert found == [(one.type, one.subject) for one in imports]


def test_it_is_the_same_each_time_and_another_one_for_another_site():
    assert configuration(SITE, EVERYBODY) == configuration(Site(bytes(32)), EVERYBODY)
    keys, others = (set(re.findall("U[A-Z2-7]{55}", configuration(one, EVERYBODY))) for one in (SITE, Site(b"1" * 32)))
    assert not keys & others


def test_the_key_is_the_one_in_the_credentials():
    credentials = SITE.static_credentials(Role.USER, "alice", 1.0)
    assert credentials.claims().public in configuration(SITE, EVERYBODY)
    assert (credentials.claims().name, credentials.claims().role) == ("alice", "user")
    assert credentials.seed not in configuration(SITE, EVERYBODY)


@pytest.mark.parametrize("name", ['a"b', "a b", "*", ">", "a{b}", "é", "x\ny", "$HOME", "#"])
def test_no_name_changes_the_form(name):
    text = configuration(SITE, [Member(Role.USER, name)])
    assert text.count("\n") == configuration(SITE, [Member(Role.USER, "alice")]).count("\n")
    assert re.fullmatch(r"RANKD-user-[A-Za-z0-9_%-]+", account_name(Member(Role.USER, name)))
