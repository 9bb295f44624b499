import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.wire.subject import (
    admin_request,
    asker_of,
    claiming_request,
    decode_name,
    encode_name,
    gateway_pattern,
    gateway_request,
    inbox_allowed,
    is_claiming,
    job_event,
    node_of,
    node_pattern,
    node_subject,
    request_patterns,
    session_in,
    session_out,
    user_request,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(NAMES)
def test_every_name_comes_back_from_its_token(name):
    assert decode_name(encode_name(name)) == name


@given(NAMES.filter(bool))
def test_a_token_is_one_token_without_wildcards_or_blanks(name):
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", encode_name(name))


@given(NAMES, NAMES)
def test_two_names_never_share_a_token(one, other):
    assert (encode_name(one) == encode_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("alice", "alice"),
        ("Al_i-ce9", "Al_i-ce9"),
        ("first.last", "first%2Elast"),
        ("a b", "a%20b"),
        ("*", "%2A"),
        (">", "%3E"),
        ("%", "%25"),
        ("a%2Eb", "a%252Eb"),
        ("ä", "%C3%A4"),
        ("+", "%2B"),
        ("~", "%7E"),
    ],
)
def test_names_are_percent_encoded_but_for_letters_digits_and_two_signs(name, token):
    assert encode_name(name) == token


@given(NAMES.filter(bool), st.sampled_from(["job.submit", "class.create"]))
def test_the_subject_says_who_asks_and_as_what(name, verb):
    assert asker_of(user_request(name, verb)) == (name, False, None)
    assert asker_of(admin_request(name, verb)) == (name, True, None)
    assert asker_of(claiming_request(name, verb)) == (name, False, None)
    subjects = [of(name, verb) for of in (user_request, admin_request, claiming_request)]
    assert [is_claiming(subject) for subject in subjects] == [False, False, True]


@given(NAMES.filter(bool))
def test_no_name_of_a_user_or_verb_is_taken_for_a_claim(name):
    assert not is_claiming(user_request(f"{name}.as-admin", "job.submit"))
    assert not is_claiming(admin_request("as-admin", "as-admin.job.submit"))
    assert not is_claiming(user_request("as-admin", "job.submit"))


@given(NAMES.filter(bool))
def test_the_subject_says_which_node_speaks(name):
    assert node_of(node_subject(name, "heartbeat")) == name


def matches(pattern, subject):
    """As a NATS server matches ``*``."""
    parts = zip(pattern.split("."), subject.split("."), strict=False)
    return len(pattern.split(".")) == len(subject.split(".")) and all(p in ("*", s) for p, s in parts)


@pytest.mark.parametrize("name", ["alice", "first.last", "*", "a>b"])
def test_the_patterns_match_the_subjects_of_every_name_and_no_others(name):
    users, admins, claiming = request_patterns("job.submit")
    assert matches(users, user_request(name, "job.submit"))
    assert matches(admins, admin_request(name, "job.submit"))
    assert not matches(users, admin_request(name, "job.submit"))
    assert matches(claiming, claiming_request(name, "job.submit"))
    assert not matches(users, claiming_request(name, "job.submit"))
    assert not matches(users, user_request(name, "job.cancel"))
    assert matches(node_pattern("report"), node_subject(name, "report"))
    assert job_event(name).count(".") == job_event("x").count(".")


def test_a_bad_token_is_an_error_and_no_other_name():
    with pytest.raises(ValueError, match="utf-8"):
        decode_name("%FF")


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        ("_INBOX.abc", True),
        ("_INBOX.alice.abc.def", True),
        ("_INBOX.", False),
        ("_INBOX", False),
        ("", False),
        ("_INBOX.*", False),
        ("_INBOX.>", False),
        ("_INBOX.a b", False),
        ("rankd.v1.node.n1.allocation", False),
        ("$JS.API.STREAM.DELETE.RANKD_EVENTS", False),
        ("x_INBOX.a", False),
    ],
)
def test_only_inboxes_are_answered(reply, allowed):
    assert inbox_allowed(reply) is allowed


@pytest.mark.parametrize("token", ["%61lice", "a%2eb", "a.b", "a b", "é", "%C3%A9%"])
def test_a_name_has_one_token_only(token):
    """A broker that lets somebody publish as '%61lice' does not let them be alice."""
    with pytest.raises(ValueError, match="not a name's token"):
        decode_name(token)


@given(NAMES.filter(bool), NAMES.filter(bool))
def test_a_gateways_subject_names_the_gateway_and_the_user_and_gives_no_rights(gateway, user):
    subject = gateway_request(gateway, user, "job.submit")
    assert asker_of(subject) == (user, False, gateway)
    tokens, pattern = subject.split("."), gateway_pattern("job.submit").split(".")
    assert len(tokens) == len(pattern)
    assert all(wanted in ("*", token) for wanted, token in zip(pattern, tokens, strict=True))


def test_others_are_vouched_for_by_the_broker_itself():
    assert asker_of(user_request("alice", "job.list")).via is None
    assert asker_of(admin_request("alice", "job.list")).via is None


@given(NAMES.filter(bool), NAMES.filter(bool))
def test_no_name_in_a_sessions_subject_is_a_pattern(user, node):
    subject = session_in(user, node, "a" * 16)
    assert "*" not in subject
    assert ">" not in subject
    assert len(subject.split(".")) == 7


def test_the_two_subjects_of_a_session_differ_in_their_last_word():
    assert session_in("a.b", "n1", "s") == "rankd.v1.session.a%2Eb.n1.s.in"
    assert session_out("a.b", None, "s") == "rankd.v1.session.a%2Eb.*.s.out"
