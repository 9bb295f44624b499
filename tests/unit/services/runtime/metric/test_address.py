"""Where metrics are served: on this machine, unless an address opens it."""

import pytest

from rankd.services.runtime.metric.address import MetricsAddress, address_of, is_own_name


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("9102", "127.0.0.1", 9102, True),
        ("0", "127.0.0.1", 0, True),
        ("0.0.0.0:9102", "0.0.0.0", 9102, False),
        ("[::1]:9102", "::1", 9102, True),
        ("head.example.org:9102", "head.example.org", 9102, False),
        ("localhost:1", "localhost", 1, True),
    ],
)
def test_an_address(text, host, port, is_loopback):
    found = address_of(text)
    assert (found, found.is_loopback) == (MetricsAddress(host, port), is_loopback)


@pytest.mark.parametrize("text", ["", "x", "65536", ":9102", "127.0.0.1:", "127.0.0.1:x", "-1", "٣"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="write 9102"):
        address_of(text)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("", True),
        ("localhost:9102", True),
        ("127.0.0.1:9102", True),
        ("127.0.0.1", True),
        ("[::1]:9102", True),
        ("evil.example.org:9102", False),
        ("evil.example.org", False),
        ("127.0.0.1.evil.example.org", False),
    ],
)
def test_only_names_of_this_machine_are_own(host, is_own):
    assert is_own_name(host) == is_own
