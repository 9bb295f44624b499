"""URLs of brokers. The examples are those of NATS' documentation ("Connecting", "Authenticating")."""

import pytest

from rankd.bus.address import host_in, is_encrypted, user_in, without_secret
from rankd.core.errors import Refused


@pytest.mark.parametrize(
    ("url", "user", "shown"),
    [
        ("nats://demo.nats.io", None, "nats://demo.nats.io"),
        ("demo.nats.io:4222", None, "nats://demo.nats.io:4222"),
        ("nats://myname:password@127.0.0.1:4222", "myname", "nats://127.0.0.1:4222"),
        ("nats://mytoken@localhost", None, "nats://localhost"),
        ("tls://a%40b:p%2Fw@[::1]:4222", "a@b", "tls://[::1]:4222"),
    ],
)
def test_published_forms_name_a_user_only_with_a_password_and_never_show_it(url, user, shown):
    assert user_in(url) == user
    assert without_secret(url) == shown


@pytest.mark.parametrize(
    "url",
    ["http://h", "nats://", "nats://h:0", "nats://h:65536", "nats://h:port", "nats://h/x", "nats://a b", "nats://h\n"],
)
def test_what_is_not_the_address_of_a_broker_is_refused(url):
    with pytest.raises(Refused) as refusal:
        without_secret(url)
    assert (refusal.value.code, refusal.value.field) == ("usage", "nats")


@pytest.mark.parametrize(
    ("url", "host", "encrypted"),
    [("demo.nats.io", "demo.nats.io", False), ("tls://a:b@[::1]:4222", "::1", True), ("tls://Head", "head", True)],
)
def test_the_host_and_whether_it_has_to_encrypt(url, host, encrypted):
    assert host_in(url) == host
    assert is_encrypted(url) is encrypted


def test_a_refusal_never_shows_a_password():
    with pytest.raises(Refused) as refusal:
        user_in("nats://ann:se/cret@broker:4222")
    assert "cret" not in refusal.value.message
    assert "%2F" in refusal.value.message
