"""What counts as an attempt to sign in by a password. The processes that check are real; no service of PAM is there."""

import time

import pytest

from rankd.core.errors import Refused, Unavailable
from rankd.services.web import password
from rankd.services.web.attempts import MOST_PER_NAME
from rankd.services.web.password import Passwords

MISSING = "rankd-no-such-service"


@pytest.mark.parametrize(
    ("name", "secret"), [("alice", ""), ("alice", "a\nb"), ("", "x"), ("a\0b", "x"), ("a" * 300, "x")]
)
async def test_what_can_be_no_password_uses_up_no_attempt(monkeypatch, name, secret):
    monkeypatch.setattr(password, "FAILED_S", 0.0)
    passwords = Passwords()
    for _ in range(50):
        with pytest.raises(Refused) as refused:
            await passwords.user(MISSING, name, secret, "10.0.0.7")
        assert refused.value.code == "bad_sign_in"


@pytest.mark.parametrize(("room", "code"), [(0, "busy"), (1, "no_pam")])
async def test_an_attempt_in_which_nothing_was_checked_is_taken_back(monkeypatch, room, code):
    monkeypatch.setattr(password, "MOST_WAITING", room)
    passwords = Passwords()
    for _ in range(MOST_PER_NAME - 1):
        passwords.attempts.begin("alice", "10.0.0.7", time.monotonic())
    with pytest.raises(Unavailable) as unavailable:
        await passwords.user(MISSING, "alice", "x", "10.0.0.7")
    assert unavailable.value.code == code
    assert passwords.attempts.begin("alice", "10.0.0.7", time.monotonic()) == 0.0
    assert passwords.attempts.begin("alice", "10.0.0.7", time.monotonic()) > 0
