"""Who looks at the page: a proxy's user, a session's, or nobody; and which changes are refused."""

import pytest
from builder import NOW

from rankd.core.errors import Refused
from rankd.core.model.service_setting import WebSettings
from rankd.services.web.session import Session, change_token
from rankd.services.web.visitor import NOBODY, Visitor, check_change, check_host, is_listed, may_read_metrics, visitor

KEY = b"k" * 32
PROXY = WebSettings(proxies=["10.0.0.0/24", "::1"])
SESSION = Session(user="alice", since=NOW, nonce="n")
HOSTS = {"127.0.0.1:80"}


def looks(address="127.0.0.1", headers=(), session=None, web=PROXY, *, is_read_only=False):
    return visitor(address, headers, session, web, is_read_only=is_read_only)


def test_a_listed_proxy_says_who_looks():
    assert looks("10.0.0.9", [("x-remote-user", "bob")]).user == "bob"
    assert looks("::ffff:10.0.0.9", [("x-remote-user", "bob")]).user == "bob"


@pytest.mark.parametrize("address", ["10.0.1.9", "127.0.0.1", "", "nowhere"])
def test_the_header_of_anybody_else_counts_nothing(address):
    assert looks(address, [("x-remote-user", "bob")]) is None
    assert looks(address, [("x-remote-user", "bob")], SESSION).user == "alice"


@pytest.mark.parametrize("values", [["a", "b"], [""], ["a\x00b"], ["x" * 257]])
def test_a_proxy_that_names_nobody_or_two_is_refused(values):
    with pytest.raises(Refused, match="one user"):
        looks("10.0.0.9", [("x-remote-user", value) for value in values])


def test_nobody_looks_without_signing_in_unless_the_page_only_shows():
    assert looks() is None
    assert looks(is_read_only=True) == Visitor("", "", may_change=False)
    assert not looks(session=SESSION, is_read_only=True).may_change


def test_a_visitor_always_asks_as_an_ordinary_user():
    asker = Visitor("root", "n", may_change=True).asker("own")
    assert (asker.user, asker.privileged, asker.is_operator, asker.sees, asker.via) == (
        "root",
        False,
        False,
        "own",
        "web",
    )


def test_a_name_that_another_site_points_here_is_refused():
    check_host("127.0.0.1:80", HOSTS)
    for host in ("evil.example:80", "127.0.0.1", "127.0.0.1:81", "", None):
        with pytest.raises(Refused, match="does not answer"):
            check_host(host, HOSTS)


def changes(*, token=None, origin="http://127.0.0.1:80", may_change=True, nonce="n"):
    headers = {} if origin is None else {"origin": origin}
    token = change_token("alice", "n", KEY) if token is None else token
    check_change(Visitor("alice", nonce, may_change=may_change), headers, token, KEY, HOSTS)


def test_a_change_needs_the_token_the_origin_and_the_right_to_change():
    changes()
    for code, given in (
        ("bad_token", {"token": "x"}), ("bad_token", {"nonce": "other"}), ("other_origin", {"origin": None}),
        ("other_origin", {"origin": "http://evil.example"}), ("other_origin", {"origin": "null"}),
        ("read_only", {"may_change": False}),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            changes(**given)
        assert refused.value.code == code


def test_an_address_in_no_network_is_not_listed():
    assert not is_listed("10.0.0.9", [])


def test_a_proxy_that_is_no_address_is_refused():
    with pytest.raises(ValueError, match="is no address"):
        WebSettings(proxies=["proxy.example.org"])


@pytest.mark.parametrize(
    ("address", "web", "is_local", "may"),
    [
        ("127.0.0.1", WebSettings(), True, True),
        ("127.0.0.9", WebSettings(), True, True),
        ("::1", WebSettings(), True, True),
        ("::ffff:127.0.0.1", WebSettings(), True, True),
        ("10.0.0.9", WebSettings(), True, False),
        ("", WebSettings(), True, False),
        ("127.0.0.1", WebSettings(), False, False),  # another name: a proxy here passes on what others ask
        ("127.0.0.1", WebSettings(proxies=["127.0.0.1"]), True, False),
        ("127.0.0.1", WebSettings(metrics=["127.0.0.1"]), False, True),
        ("10.0.0.9", WebSettings(metrics=["10.0.0.0/24"]), False, True),
        ("10.0.1.9", WebSettings(metrics=["10.0.0.0/24"]), True, False),
    ],
)
def test_metrics_are_for_this_machine_and_listed_addresses(address, web, is_local, may):
    assert may_read_metrics(address, web, None, is_local=is_local) == may
    nobody = Visitor(NOBODY, "", may_change=False)  # with --read-only
    assert may_read_metrics(address, web, nobody, is_local=is_local) == may
    assert may_read_metrics(address, web, Visitor("alice", "n", may_change=True), is_local=is_local)


def test_an_address_of_metrics_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"metrics: 'head' is no address"):
        WebSettings(metrics=["head"])
