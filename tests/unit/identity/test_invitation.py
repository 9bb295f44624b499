"""The text of an invitation: whole or refused, and no other error for any text."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.errors import Refused
from rankd.identity.invitation import (
    MOST_CHARACTERS,
    InvitationText,
    digest_of,
    new_secret,
    read_invitation,
)
from rankd.identity.site import Site

NOW = 1_700_000_000.0
CONNECTION = Site(bytes(32)).enrolment(NOW, 60.0)
INVITATION = InvitationText(
    nats=["nats://head:4222"], role="user", name="alice", expires_at=int(NOW) + 60, secret=new_secret(),
    token=CONNECTION.token, seed=CONNECTION.seed,
)  # fmt: skip
TEXT = INVITATION.text()


def changed(**fields):
    """A text with other fields than a gateway would write."""
    content = json.loads(base64.urlsafe_b64decode(TEXT.removeprefix("rankd-") + "=="))
    content |= fields
    return "rankd-" + base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def refusal(text):
    with pytest.raises(Refused) as refused:
        read_invitation(text)
    assert refused.value.code == "bad_token"
    return refused.value.message


def test_what_is_written_is_read():
    assert read_invitation(TEXT) == INVITATION
    assert read_invitation(TEXT).credentials == CONNECTION


def test_a_certificate_travels_with_it():
    with_ca = read_invitation(changed(ca="-----BEGIN CERTIFICATE-----"))
    assert with_ca.ca == "-----BEGIN CERTIFICATE-----"
    assert read_invitation(with_ca.text()) == with_ca


def test_blanks_and_line_breaks_of_a_mail_do_not_count():
    lines = "\n".join(TEXT[first : first + 60] for first in range(0, len(TEXT), 60))
    assert read_invitation(f"  {lines}\r\n") == INVITATION


def test_it_is_one_word():
    assert TEXT.startswith("rankd-")
    assert set(TEXT) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@pytest.mark.parametrize("length", range(0, 1000, 9))
def test_a_text_that_is_cut_off_is_refused(length):
    assert length < len(TEXT)
    refusal(TEXT[:length])


@pytest.mark.parametrize(
    "text",
    ["", "\n", "hello", "rankd-", "rankd-!!!", "rankd-é", "rankd-" + "A" * 5, "rankd-bnVsbA", "RANKD-" + TEXT[6:],
     "rankd-" + base64.urlsafe_b64encode(b"[" * 9_000).decode().rstrip("=")],
    ids=["empty", "blank", "word", "nothing", "signs", "letters", "length", "null", "capitals", "deep"],
)  # fmt: skip
def test_another_text_is_refused(text):
    refusal(text)


def test_a_huge_text_is_refused_before_it_is_read():
    assert f"more than {MOST_CHARACTERS}" in refusal("rankd-" + "A" * 10_000_000)


@pytest.mark.parametrize(
    "fields",
    [{"nats": []}, {"nats": [""]}, {"nats": ["nats://x"] * 17}, {"nats": "nats://x"}, {"name": ""}, {"secret": "short"},
     {"secret": "x" * 65}, {"seed": "SX"}, {"token": "a.b.c"}, {"token": ""}, {"expires_at": "soon"}, {"name": None}],
)  # fmt: skip
def test_a_text_with_a_damaged_part_is_refused(fields):
    refusal(changed(**fields))


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text):
    refusal("rankd-" + text)


@given(st.binary(max_size=400))
def test_any_content_is_read_or_refused(content):
    refusal("rankd-" + base64.urlsafe_b64encode(content).decode().rstrip("="))


def test_secrets_are_not_shown():
    assert INVITATION.secret not in repr(INVITATION)
    assert INVITATION.seed not in repr(INVITATION)
    assert INVITATION.token not in repr(INVITATION)


def test_a_secret_can_not_be_guessed_and_its_digest_is_another():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert min(map(len, secrets)) * 6 >= 128
    assert len({digest_of(secret) for secret in secrets}) == 100
    assert not {digest_of(secret) for secret in secrets} & secrets
