"""What a target is: one grammar, so that what is checked is what is sent to."""

import pytest

from rankd.core.notification.target import BadTarget, is_address, is_host, parse_target, with_domain

GOOD = [
    "mailto:alice@example.org",
    "mailto:first.last+jobs@sub.example.org",
    "https://hooks.example.org/a/b?c=d&e=%20",
    "https://hooks.example.org:8443/",
    "https://192.0.2.7/x",
    "https://[2001:db8::1]/x",
    "slack://TokenA/TokenB/TokenC",
]


@pytest.mark.parametrize("text", GOOD)
def test_targets(text):
    assert parse_target(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice@example.org",
        "http://hooks.example.org/",
        "HTTPS://hooks.example.org/",
        "https://hooks.example.org",
        "https://hooks.example.org@evil.org/",
        "https://user:password@hooks.example.org/",
        "https://hooks.example.org/#x",
        "https://hooks.example.org/a/../b",
        "https://hooks.example.org/a/%2e%2e/b",
        "https://hooks.example.org//evil.org/",
        "https://hooks.example.org/a\\b",
        "https://hooks.example.org/a b",
        "https://hooks.example.org/a\r\nX: y",
        "https://hooks.example.org/%0d%0aX",
        "https://hooks.example.org/%zz",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org:80:443/",
        "https://hoöks.example.org/",
        "https://-a.example.org/",
        f"https://{'a.' * 127}org/",
        f"https://example.org/{'a' * 2000}",
        "mailto:alice",
        "mailto:alice@example.org,bob@example.org",
        "mailto:alice@example.org?bcc=bob@example.org",
        "mailto:alice@example.org\r\nBcc: bob@example.org",
        "mailto:alice%40evil.org@example.org",
        "mailto:-alice@example.org",
        "mailto:a..b@example.org",
        "mailto:@example.org",
        'mailto:"a b"@example.org',
        "mailto:alice@[127.0.0.1]",
        "slack:token",
        "slack://a b",
        "slack://a\n",
    ],
)
def test_what_is_none(text):
    with pytest.raises(BadTarget):
        parse_target(text)


def test_a_lane_is_a_receiver_and_not_a_path():
    lanes = [parse_target(text).lane for text in GOOD]
    assert lanes[:4] == ["mailto", "mailto", "https://hooks.example.org:443", "https://hooks.example.org:8443"]
    assert lanes[-1] == "slack:"


def test_a_user_without_a_domain_gets_the_sites():
    assert with_domain("mailto:alice", "example.org") == "mailto:alice@example.org"
    assert with_domain("https://example.org/", "x.org") == "https://example.org/"
    for text, domain in (("mailto:alice", None), ("mailto:a b", "example.org"), ("mailto:", "example.org")):
        with pytest.raises(BadTarget):
            with_domain(text, domain)


def test_hosts_and_addresses_of_settings():
    assert [is_host(text) for text in ("a.org", "localhost", "[::1]", "127.0.0.1")] == [True] * 4
    assert [is_host(text) for text in ("A.org", "*.org", "a.org:1", "a b", "")] == [False] * 5
    assert [is_address(text) for text in ("a@b.org", "a", "a@b\n", "A <a@b.org>")] == [True, False, False, False]
