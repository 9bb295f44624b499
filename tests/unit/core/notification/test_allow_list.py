"""Which targets the administrator's patterns allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.notification.allow_list import glob, is_allowed, needs_mail, pattern_problem
from rankd.core.notification.target import parse_target


@pytest.mark.parametrize(
    ("pattern", "target", "allowed"),
    [
        ("mailto:*@example.org", "mailto:alice@example.org", True),
        ("mailto:*@Example.org", "mailto:alice@EXAMPLE.org", True),
        ("mailto:*@example.org", "mailto:alice@evil.example.org", False),
        ("mailto:*@example.org", "mailto:alice@example.org.evil.org", False),
        ("mailto:*@*.example.org", "mailto:alice@a.example.org", True),
        ("mailto:alice@example.org", "mailto:bob@example.org", False),
        ("https://hooks.example.org/*", "https://hooks.example.org/a?b", True),
        ("https://hooks.example.org/*", "https://HOOKS.example.org/a", True),
        ("https://hooks.example.org/*", "https://hooks.example.org:8443/a", False),
        ("https://hooks.example.org:*/*", "https://hooks.example.org:8443/a", True),
        ("https://hooks.example.org:443/*", "https://hooks.example.org/a", True),
        ("https://hooks.example.org/team/*", "https://hooks.example.org/other", False),
        ("https://*.example.org/*", "https://evil.org/x.example.org/", False),
        ("https://*.example.org/*", "https://a.example.org/", True),
        ("https://*/*", "https://anything.org/x", True),
        ("https://*/*", "mailto:alice@example.org", False),
        ("slack://*", "slack://a/b", True),
        ("slack://*", "slacks://a/b", False),
        ("slack://*", "https://example.org/", False),
        ("*", "https://example.org/", False),
    ],
)
def test_patterns(pattern, target, allowed):
    assert is_allowed(parse_target(target), [pattern]) is allowed


def test_one_pattern_of_several_is_enough_and_none_allows_nothing():
    target = parse_target("mailto:alice@example.org")
    assert is_allowed(target, ["slack://*", "mailto:*@example.org"])
    assert not is_allowed(target, [])


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_a_star_stands_for_any_text(pattern, text):
    import re

    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert glob(pattern, text) is expected


@pytest.mark.parametrize("pattern", ["*", "", "http://a/*", "https://a", "mailto:*", "example.org", "https://a:x/*"])
def test_patterns_that_would_never_fit_are_reported(pattern):
    assert pattern_problem(pattern)


def test_mail_needs_a_server():
    assert needs_mail(["https://a/*", "mailto:*@a.org"])
    assert not needs_mail(["https://a/*"])
