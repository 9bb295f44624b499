"""URLs of brokers. The examples are those of NATS' documentation ("Connecting", "Authenticating")."""

import pytest

from rankd.bus.address import host_in, is_encrypted, urls_in, user_in, without_secret
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


def test_brokers_of_a_cluster_are_one_text_with_commas():
    address = "nats://alice:a%2Cb@one:4222,tls://alice:a%2Cb@[::1]:4222,three"
    assert urls_in("one,two:4223") == ["one", "two:4223"]
    with pytest.raises(Refused, match="all have to name the same user, or none"):
        urls_in(address)
    address = address.removesuffix(",three")
    assert user_in(address) == "alice"
    assert without_secret(address) == "nats://one:4222,tls://[::1]:4222"
    assert is_encrypted(address), "one that demands encryption demands it for all"
    assert not is_encrypted("nats://one,nats://two")


@pytest.mark.parametrize("address", ["nats://one,", ",nats://one", "nats://one,,nats://two", "nats://one, nats://two"])
def test_one_wrong_url_among_several_is_refused(address):
    with pytest.raises(Refused, match="with a comma between several"):
        urls_in(address)


def test_too_many_brokers_are_refused():
    assert len(urls_in(",".join(["nats://one"] * 16))) == 16
    with pytest.raises(Refused, match="17 brokers, and at most 16"):
        urls_in(",".join(["nats://one"] * 17))


def test_a_comma_in_a_password_is_refused_without_showing_it():
    for address in ("nats://ann:se,cret@broker:4222", "nats://one,nats://ann:se,cret@two", "nats://ann:se,cret"):
        with pytest.raises(Refused) as refusal:
            urls_in(address)
        assert "cret" not in refusal.value.message or "@" not in address
        assert "%2C" in refusal.value.message
