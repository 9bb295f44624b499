"""The credentials of a connection: read again at each one, and kept if they can't be read any more."""

import pytest

from rankd.bus.presented import Presented
from rankd.core.errors import Refused
from rankd.identity.site import Role, Site

SITE = Site(bytes(32))
URL = "nats://carol:secret@head:4222"


class Source:
    """Credentials that change, or become unreadable."""

    def __init__(self):
        self.now = SITE.credentials(Role.USER, "alice", 1000.0)

    def __call__(self):
        if self.now is None:
            raise Refused("bad_credentials", "the file is gone")
        return self.now


def test_without_credentials_the_address_says_who_connects():
    presented = Presented(URL, None, lambda _: None)

    assert (presented.read(), presented.user, presented.role, presented.public_key()) == ({}, "carol", None, "")


def test_renewed_credentials_count_at_the_next_connection():
    source, believed = Source(), []
    presented = Presented(URL, source, believed.append)
    token = presented.read()["user_jwt_cb"]
    before = token()
    source.now = SITE.credentials(Role.ADMIN, "bob", 2000.0)
    presented.refresh()

    assert (presented.user, presented.role) == ("bob", Role.ADMIN)
    assert token() != before
    assert len(believed) == 2


def test_credentials_that_cannot_be_read_any_more_stay_as_they_were(caplog):
    source = Source()
    presented = Presented(URL, source, lambda _: None)
    presented.read()
    source.now = None
    presented.refresh()

    assert presented.user == "alice"
    assert "the file is gone" in caplog.text


def test_credentials_that_cannot_be_read_at_first_are_an_error():
    source = Source()
    source.now = None
    with pytest.raises(Refused, match="gone"):
        Presented(URL, source, lambda _: None).read()
