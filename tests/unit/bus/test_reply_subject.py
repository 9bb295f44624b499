"""A service answers inboxes only, and where the broker knows users, only those of the one who asks."""

import logging
from typing import NamedTuple

import pytest

from rankd.bus.reply_subject import COMPLAIN_EVERY_S, Replies, is_inbox_of_asker


class Transport(NamedTuple):
    has_account: bool
    knows_users: bool


OPEN, PASSWORDS, ACCOUNTS = Transport(False, False), Transport(False, True), Transport(True, True)
USER, NODE, HEALTH = "rankd.v1.user.alice.job.list", "rankd.v1.node.n1.report", "rankd.v1.internal.health.intake"
SUBJECTS = (
    USER,
    "rankd.v1.user.alice.as-admin.job.list",
    "rankd.v1.admin.alice.job.list",
    "rankd.v1.gateway.head.alice.job.list",
    NODE,
    HEALTH,
    "rankd.v1.enrol",
    "$SRV.INFO.rankd",
)
FORGED = ("", "_INBOX", "_INBOX.", "_INBOX.*", "_INBOX.a b", "rankd.v1.event.ranking", "$JS.API.STREAM.NAMES", "_R_",
          "rankd.v1.node.n1.allocation", "x_INBOX.a")  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("transport", [OPEN, PASSWORDS, ACCOUNTS])
def test_what_is_no_inbox_is_never_answered(transport, subject):
    assert [reply for reply in FORGED if is_inbox_of_asker(transport, subject, reply)] == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_between_accounts_the_brokers_own_reply_subject_is_answered(subject):
    assert is_inbox_of_asker(ACCOUNTS, subject, "_R_.abc.def")
    assert is_inbox_of_asker(ACCOUNTS, subject, "_INBOX.services.x")
    assert not is_inbox_of_asker(PASSWORDS, subject, "_R_.abc.def")
    assert not is_inbox_of_asker(OPEN, subject, "_R_.abc.def")


@pytest.mark.parametrize("subject", [subject for subject in SUBJECTS if ".alice." in subject])
def test_where_users_share_an_account_only_the_askers_own_inbox_is_answered(subject):
    assert is_inbox_of_asker(PASSWORDS, subject, "_INBOX.alice.x")
    assert not is_inbox_of_asker(PASSWORDS, subject, "_INBOX.bob.x")
    assert is_inbox_of_asker(OPEN, subject, "_INBOX.bob.x")


def test_a_name_that_can_not_be_read_has_no_inbox():
    assert not is_inbox_of_asker(PASSWORDS, "rankd.v1.user.%FF.job.list", "_INBOX.%FF.x")


@pytest.mark.parametrize("subject", [NODE, HEALTH])
def test_a_request_that_names_no_user_is_answered_at_any_inbox(subject):
    assert is_inbox_of_asker(PASSWORDS, subject, "_INBOX.node1.x")


def test_forged_requests_are_all_counted_and_logged_once_a_minute(caplog):
    now = [0.0]
    replies = Replies(PASSWORDS, lambda: now[0])
    with caplog.at_level(logging.WARNING, "rankd.bus"):
        for _ in range(1000):
            assert not replies.may_answer(USER, "rankd.v1.event.ranking")
        assert not replies.may_answer(USER, "")
        assert replies.may_answer(USER, "_INBOX.alice.x")
        assert (replies.dropped, len(caplog.records)) == (1000, 1)
        now[0] = COMPLAIN_EVERY_S
        replies.may_answer(USER, "_INBOX.bob.x")
    assert (replies.dropped, len(caplog.records)) == (1001, 2)
    assert "1001" in caplog.text
