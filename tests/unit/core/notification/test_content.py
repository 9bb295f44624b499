"""What a notification says to people: one subject line, plain text, and no control character of a job's name."""

from email import message_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.content import LONGEST_SUBJECT, Content, subject_of, text_of
from rankd.services.notifier.mail import message_of

KEYS = [
    "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Rankd-Event-Id",
    "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
]  # fmt: skip
OF = {"id": 1, "event": "fail", "state": "failed", "at": 0.0, "user": "alice", "queue": "root.a", "job": 17}


def test_a_subject_says_what_has_happened():
    assert subject_of(Content(name="train", **OF)) == "rankd: job 17 failed (train)"
    assert (
        subject_of(Content(name="t", array_job=17, array_task=3, **{**OF, "job": 20})) == "rankd: task 17_3 failed (t)"
    )


@pytest.mark.parametrize("name", ["a\r\nBcc: eve@example.org", "a\n\n<b>x</b>", "\x1b[31m", "\u202e", "\ud800"])
def test_a_name_forges_no_line(name):
    content = Content(name=name, **OF)
    for text in (subject_of(content), *text_of(content).split("\n")):
        assert text.isprintable()


ENCODED = ["=?utf-8?q?=0d=0aBcc:_eve@example.org?=", "=?utf-8?b?DQpGcm9tOiBlQGUub3Jn?=", "=" * 78 + "?utf-8?q?=0a?="]


@pytest.mark.parametrize("name", [*ENCODED, "=?utf-8?q?a?= =?utf-8?q?=0d=0a=0d=0aHello?=", "=?=?utf-8?q?=0d=0aX:1?="])
def test_a_name_is_no_encoded_word_of_which_a_mail_makes_lines(name):
    content = Content(name=name, **OF)
    assert "=?" not in subject_of(content)
    mail = message_of(content, 0, "alice@example.org", NotificationSettings(mail_domain="example.org"))
    head = message_from_bytes(mail.as_bytes())
    assert head.keys() == KEYS
    assert head.get_payload(decode=True).decode() == text_of(content)


@given(st.text(max_size=300))
def test_a_subject_is_one_short_line_that_can_be_encoded(name):
    subject = subject_of(Content(name=name, **OF))
    assert subject.isprintable() or " " in subject
    assert "\n" not in subject
    assert "\r" not in subject
    assert len(subject) <= LONGEST_SUBJECT
    subject.encode()


def test_the_text_has_the_facts():
    text = text_of(Content(name="train", exit_status=3, nodelist="n[1-2]", ended_at=1709210096.7, **OF))
    lines = text.splitlines()
    assert lines[0] == "Job 17 failed (train)."
    assert "exit status: 3" in lines
    assert "ended:       2024-02-29T12:34:56Z" in lines
    assert not any(line.startswith("signal") for line in lines)
    assert "job:         17" in lines
    of_task = text_of(Content(name="t", array_job=17, array_task=3, **{**OF, "job": 20}))
    assert "job:         17_3" in of_task.splitlines(), "not the id of its record"
