"""The URLs in an invitation: where others reach the broker."""

import pytest

from rankd.cli.common.broker_url import reachable, urls_for_others
from rankd.client.place import Place
from rankd.core.errors import Refused

NOWHERE = Place(None, None, None)


@pytest.mark.parametrize(
    ("nats", "listen", "address", "urls"),
    [
        ("nats://127.0.0.1:4222", "0.0.0.0", "10.0.0.5", ["nats://head:4222", "nats://10.0.0.5:4222"]),
        ("tls://[::1]:4222", "::", "fd00::5", ["tls://head:4222", "tls://[fd00::5]:4222"]),
        ("nats://127.0.0.1:4222", "0.0.0.0", None, ["nats://head:4222"]),
        ("nats://10.1.1.1:4222", "10.1.1.1", "10.0.0.5", ["nats://10.1.1.1:4222"]),
        ("nats://broker:4222", None, "10.0.0.5", ["nats://broker:4222"]),
        ("tls://b1:4222,tls://b2:4222", None, "10.0.0.5", ["tls://b1:4222,tls://b2:4222"]),
    ],
)
def test_others_get_an_address_of_this_machine(nats, listen, address, urls):
    assert reachable(nats, listen, "head", address) == (urls, None)


@pytest.mark.parametrize("listen", ["127.0.0.1", None])
def test_a_broker_on_loopback_is_said(listen):
    urls, warning = reachable("nats://127.0.0.1:4222", listen, "head", "10.0.0.5")
    assert urls == ["nats://127.0.0.1:4222"]
    assert "only this machine can reach" in warning


def test_urls_that_are_given_count():
    assert urls_for_others(NOWHERE, ["nats://a:1", "nats://b:1"]) == (["nats://a:1", "nats://b:1"], None)


@pytest.mark.parametrize("url", ["nats://u:p@a:1", "nats://token@a:1", "http://a", "nats://a:x"])
def test_urls_with_a_secret_or_of_something_else_are_refused(url):
    with pytest.raises(Refused) as refused:
        urls_for_others(NOWHERE, [url])
    assert refused.value.code == "usage"
    assert "u:p" not in refused.value.message


def test_without_a_broker_a_url_is_needed():
    with pytest.raises(Refused, match="give --url"):
        urls_for_others(NOWHERE, [])


def test_the_address_is_read_from_what_runs(tmp_path):
    (tmp_path / "up.json").write_text('{"listen": "10.1.1.1", "nats": "nats://10.1.1.1:4222"}')
    place = Place(tmp_path, "nats://10.1.1.1:4222", None)
    assert urls_for_others(place, []) == (["nats://10.1.1.1:4222"], None)
