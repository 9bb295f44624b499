"""Reading a user's token."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.identity.claims import UserClaims, user_token
from rankd.identity.key import KeyKind, new_key
from rankd.identity.token import read_claims

ACCOUNT = new_key(KeyKind.ACCOUNT)


@given(
    name=st.text(max_size=300),
    role=st.sampled_from(["user", "administrator", "node"]),
    ends=st.none() | st.integers(0, 2**40),
)
def test_what_was_written_is_read(name, role, ends):
    claims = UserClaims(public="UX", name=name.encode(errors="replace").decode(), role=role, expires_at=ends)
    read = read_claims(user_token(ACCOUNT, claims, 1.0))
    assert (read.name, read.role, read.public, read.expires_at) == (claims.name, role, "UX", ends)


@given(st.text(max_size=200) | st.tuples(*[st.text("abcdefgXYZ-_=é", max_size=80)] * 3).map(".".join))
def test_anything_else_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - several reasons
        read_claims(text)


def test_a_token_of_another_program_has_no_role():
    body = base64.urlsafe_b64encode(b'{"name":"x","sub":"UX","nats":{}}').decode().rstrip("=")
    assert read_claims(f"a.{body}.c").role is None


def test_newer_credentials_are_asked_for_after_half_of_their_time():
    claims = UserClaims(public="UX", name="n1", role="node", expires_at=3_000)
    assert read_claims(user_token(ACCOUNT, claims, 1_000.0)).renew_at == 2_000
    for_ever = UserClaims(public="UX", name="n1", role="node")
    assert read_claims(user_token(ACCOUNT, for_ever, 1_000.0)).renew_at is None


def test_a_token_that_is_nested_beyond_all_reason_is_none():
    content = base64.urlsafe_b64encode(b'{"name":"a","sub":"U","nats":{"tags":[]},"x":' + b"[" * 5_000).decode()
    with pytest.raises(ValueError, match="can't be read"):
        read_claims(f"e30.{content}.x")
