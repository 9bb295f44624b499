"""Signed claims: what is in them, and that the issuer's signature is over exactly that."""

import base64
import json

import nkeys
import pytest

from rankd.identity.claims import (
    AccountClaims,
    AccountLimits,
    Export,
    Import,
    Narrow,
    UserClaims,
    account_token,
    operator_token,
    user_token,
)
from rankd.identity.key import KeyKind, new_key

NOW = 1_700_000_000.9
OPERATOR, ACCOUNT, USER = new_key(KeyKind.OPERATOR), new_key(KeyKind.ACCOUNT), new_key(KeyKind.USER)


def decoded(token, issuer):
    header, body, signature = token.split(".")
    pair = nkeys.from_seed(bytearray(issuer.seed.encode()))
    assert pair.verify(f"{header}.{body}".encode(), base64.urlsafe_b64decode(signature + "=="))
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"typ": "JWT", "alg": "ed25519-nkey"}
    return json.loads(base64.urlsafe_b64decode(body + "=="))


def test_an_operator_signs_itself_and_names_the_system_account():
    claims = decoded(operator_token(OPERATOR, "ASYSTEM", NOW), OPERATOR)
    assert (claims["iss"], claims["sub"]) == (OPERATOR.public, OPERATOR.public)
    assert claims["nats"] == {"type": "operator", "system_account": "ASYSTEM", "version": 2}
    assert claims["iat"] == 1_700_000_000


def test_an_account_without_exports_may_have_none_and_no_streams_and_no_leaf_nodes():
    claims = AccountClaims(public=ACCOUNT.public, name="user alice", limits=AccountLimits(connections=9))
    limits = decoded(account_token(OPERATOR, claims, NOW), OPERATOR)["nats"]["limits"]
    assert (limits["exports"], limits["leaf"], limits["conn"]) == (0, 0, 9)
    assert not {"mem_storage", "disk_storage", "streams", "consumer"} & limits.keys()


def test_an_account_with_streams_has_room_for_them():
    claims = AccountClaims(public=ACCOUNT.public, name="services", limits=AccountLimits(has_streams=True))
    limits = decoded(account_token(OPERATOR, claims, NOW), OPERATOR)["nats"]["limits"]
    assert {limits[name] for name in ("mem_storage", "disk_storage", "streams", "consumer")} == {-1}


def test_exports_imports_and_revocations_are_written_as_nats_names_them():
    claims = AccountClaims(
        public=ACCOUNT.public,
        name="x",
        exports=[Export(name="a", subject="a.*", type="service", response_type="Stream")],
        imports=[Import(name="b", subject="b.x", account="AOTHER", type="stream")],
        revoked={"*": 17},
    )
    content = decoded(account_token(OPERATOR, claims, NOW), OPERATOR)["nats"]
    assert content["exports"] == [{"name": "a", "subject": "a.*", "type": "service", "response_type": "Stream"}]
    assert content["imports"] == [{"name": "b", "subject": "b.x", "account": "AOTHER", "type": "stream"}]
    assert content["revocations"] == {"*": 17}


@pytest.mark.parametrize("expires_at", [None, 1_700_000_060])
def test_a_user_is_signed_by_its_account_and_ends_when_it_is_said(expires_at):
    claims = UserClaims(public=USER.public, name="alice", role="user", expires_at=expires_at)
    read = decoded(user_token(ACCOUNT, claims, NOW), ACCOUNT)
    assert (read["iss"], read["sub"], read["name"]) == (ACCOUNT.public, USER.public, "alice")
    assert read.get("exp") == expires_at
    assert read["nats"]["tags"] == ["rankd:user"]


def test_a_narrow_connection_may_use_its_subjects_only():
    narrow = Narrow(publish=["a.b"], subscribe=["_INBOX.x.>"], subscriptions=4, payload_bytes=4096)
    claims = UserClaims(public=USER.public, name="invitation", role="enrolment", narrow=narrow)
    content = decoded(user_token(ACCOUNT, claims, NOW), ACCOUNT)["nats"]
    assert content["pub"] == {"allow": ["a.b"]}
    assert content["sub"] == {"allow": ["_INBOX.x.>"]}
    assert (content["subs"], content["payload"]) == (4, 4096)


def test_an_accounts_messages_may_have_a_limit():
    claims = AccountClaims(public=ACCOUNT.public, name="enrolment", limits=AccountLimits(payload_bytes=4096))
    assert decoded(account_token(OPERATOR, claims, NOW), OPERATOR)["nats"]["limits"]["payload"] == 4096
