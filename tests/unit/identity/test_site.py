"""A site's secret: private, lasting, and the only thing that its keys come from."""

import base64
import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from rankd.core.errors import Refused
from rankd.identity.key import KeyKind, new_key
from rankd.identity.site import Role, open_site, read_barred_users, read_site, readmit, revoke
from rankd.identity.trusted_node import set_trusted

NOW = 1_700_000_000.0


def claims_of(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


def test_the_secret_is_made_once_and_is_private(tmp_path):
    first = open_site(tmp_path)
    assert stat.S_IMODE((tmp_path / "site.key").stat().st_mode) == 0o600
    assert open_site(tmp_path).account_of(Role.USER, "alice") == first.account_of(Role.USER, "alice")


def test_credentials_hold_the_cas_certificate_while_the_broker_encrypts(tmp_path):
    open_site(tmp_path)
    assert read_site(tmp_path).credentials(Role.USER, "alice", NOW).ca == ""
    (tmp_path / "ca.pem").write_text("a certificate")
    assert read_site(tmp_path).credentials(Role.USER, "alice", NOW).ca == "a certificate"
    (tmp_path / "ca.pem").write_bytes(b"\xff")
    with pytest.raises(Refused, match="holds no certificate"):
        read_site(tmp_path)


def test_two_sites_have_nothing_in_common(tmp_path):
    (tmp_path / "other").mkdir()
    assert open_site(tmp_path).account_of(Role.SERVICES) != open_site(tmp_path / "other").account_of(Role.SERVICES)


@pytest.mark.parametrize("content", ["", "00", "x" * 64, "00" * 33])
def test_a_damaged_secret_is_not_replaced(tmp_path, content):
    (tmp_path / "site.key").write_text(content)
    with pytest.raises(Refused) as refused:
        open_site(tmp_path)
    assert refused.value.code == "bad_secret"
    assert (tmp_path / "site.key").read_text() == content


def test_every_role_and_name_has_an_account_of_its_own(tmp_path):
    site = open_site(tmp_path)
    accounts = [
        site.account_of(role, name)
        for role, name in [
            (Role.SYSTEM, ""), (Role.SERVICES, ""), (Role.USER, "a"), (Role.USER, "b"), (Role.NODE, "a"),
            (Role.USER, "services"), (Role.USER, ""), (Role.NODE, ""),
        ]
    ]  # fmt: skip
    assert len(set(accounts)) == len(accounts)
    assert site.account_of(Role.ADMIN, "a") == site.account_of(Role.USER, "a")


def test_only_the_services_have_streams(tmp_path):
    site = open_site(tmp_path)
    has_streams = {
        role: "disk_storage" in claims_of(site.account(role, "x", NOW).token)["nats"]["limits"] for role in Role
    }
    assert [role for role, has in has_streams.items() if has] == [Role.SERVICES]


def test_a_revocation_covers_what_was_signed_until_now_and_nothing_later(tmp_path):
    open_site(tmp_path)
    revoke(tmp_path, Role.USER, "alice", NOW)
    site = read_site(tmp_path)
    assert claims_of(site.account(Role.USER, "alice", NOW).token)["nats"]["revocations"] == {"*": int(NOW)}
    assert claims_of(site.account(Role.USER, "bob", NOW).token)["nats"]["revocations"] == {}
    assert claims_of(site.credentials(Role.USER, "alice", NOW).token)["iat"] > int(NOW)
    assert site.is_barred(Role.USER, "alice")
    assert site.is_barred(Role.ADMIN, "alice")
    assert not site.is_barred(Role.NODE, "alice")


def test_who_is_let_in_again_does_not_get_back_what_was_revoked(tmp_path):
    open_site(tmp_path)
    revoke(tmp_path, Role.USER, "alice", NOW)
    readmit(tmp_path, Role.USER, "alice")
    site = read_site(tmp_path)
    assert not site.is_barred(Role.USER, "alice")
    assert claims_of(site.account(Role.USER, "alice", NOW).token)["nats"]["revocations"] == {"*": int(NOW)}


def test_barred_users_are_those_who_were_revoked_and_not_let_in_again(tmp_path):
    open_site(tmp_path)
    assert read_barred_users(tmp_path) == frozenset()
    for role, name in ((Role.USER, "alice"), (Role.USER, "first last"), (Role.NODE, "n1"), (Role.ADMIN, "carol")):
        revoke(tmp_path, role, name, NOW)
    assert read_barred_users(tmp_path) == {"alice", "first last", "carol"}
    readmit(tmp_path, Role.USER, "alice")
    assert read_barred_users(tmp_path) == {"first last", "carol"}


def test_credentials_end_when_it_is_said(tmp_path):
    site = open_site(tmp_path)
    assert site.credentials(Role.USER, "alice", NOW, 60.0).claims().expires_at == int(NOW) + 60
    assert site.credentials(Role.USER, "alice", NOW).claims().expires_at is None


def test_who_is_barred_is_told_to_a_broker_that_starts(tmp_path):
    """It may have been away when the access was revoked."""
    open_site(tmp_path)
    for name in ("alice", "bob b"):
        revoke(tmp_path, Role.USER, name, NOW)
    revoke(tmp_path, Role.NODE, "n1", NOW)
    readmit(tmp_path, Role.USER, "alice")
    site = read_site(tmp_path)
    barred = site.barred_accounts(NOW)
    assert [one.public for one in barred] == [site.account_of(Role.USER, "bob b"), site.account_of(Role.NODE, "n1")]
    assert {claims_of(one.token)["nats"]["revocations"]["*"] for one in barred} == {int(NOW)}


def test_no_revocation_is_lost_when_many_are_written_at_once(tmp_path):
    open_site(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: revoke(tmp_path, Role.USER, f"u{number}", NOW), range(64)))
    site = read_site(tmp_path)
    assert all(site.is_barred(Role.USER, f"u{number}") for number in range(64))


def test_a_node_reaches_a_gateways_subjects_while_it_is_trusted(tmp_path):
    open_site(tmp_path)

    def gateways() -> list[str]:
        imports = claims_of(read_site(tmp_path).account(Role.NODE, "n1", NOW).token)["nats"]["imports"]
        return [one["subject"] for one in imports if ".gateway." in one["subject"]]

    assert gateways() == []
    set_trusted(tmp_path, "n1", is_trusted=True)
    assert gateways() == ["rankd.v1.gateway.n1.>"]
    set_trusted(tmp_path, "n1", is_trusted=False)
    assert gateways() == []


def test_an_invitation_connects_for_its_exchange_only(tmp_path):
    site = open_site(tmp_path)
    one, other = site.enrolment(NOW, 60.0), site.enrolment(NOW, 60.0)
    content = claims_of(one.token)["nats"]
    assert content["pub"] == {"allow": ["rankd.v1.enrol"]}
    assert content["sub"] == {"allow": [f"_INBOX.{one.claims().public}.>"]}
    assert content["sub"] != claims_of(other.token)["nats"]["sub"]
    assert one.claims().expires_at == int(NOW) + 60
    limits = claims_of(site.account(Role.ENROLMENT, "", NOW).token)["nats"]["limits"]
    assert 0 < limits["conn"] <= 64
    assert 0 < limits["payload"] <= 4096


def test_a_token_for_a_key_is_that_users_and_the_key_stays_where_it_is(tmp_path):
    site = open_site(tmp_path)
    key = new_key(KeyKind.USER)
    claims = claims_of(site.sign(Role.NODE, "n1", key.public, NOW, 60.0))
    assert (claims["sub"], claims["name"], claims["exp"]) == (key.public, "n1", int(NOW) + 60)
    assert claims["iss"] == site.account_of(Role.NODE, "n1")
