"""Notifications from a job's event to real receivers: HTTPS and SMTP servers that answer, fail, hang and come back."""

from __future__ import annotations

import email
import hashlib
import hmac
import json
import ssl

import builder
import pytest
from certificates import Authority
from integration.notify_stage import BUSY, OK, Hook, Mailbox, a_mail_server, a_site, for_hook
from integration.stage import true_in_time
from listening import a_server

from rankd.core.notification.pace import Pauses
from rankd.services.notifier.lane_load import IN_LANE

FAR = Pauses(first_s=3600.0)


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def letters(stage) -> list[tuple]:
    return stage.rows("SELECT code, message FROM dead_letter WHERE kind = 'notification' ORDER BY id")


def waiting(stage) -> int:
    return stage.rows("SELECT count(*) FROM notifications WHERE state = 'waiting'")[0][0]


async def test_a_hook_gets_a_signed_message_with_the_events_id(broker, tmp_path):
    async with Hook(tmp_path) as hook, a_site(broker, tmp_path, **for_hook(hook)) as stage, stage.notifier(broker):
        job = await stage.ends(notify={"on": ["fail"], "to": [hook.url]}, name="train\nX: y", exit_status=3)
        request = await hook.got()
        assert request.line == "POST /hook?a=b HTTP/1.1"
        assert request.headers["Host"] == f"localhost:{hook.port}"
        content = json.loads(request.body)
        assert (content["job"], content["event"], content["exit_status"]) == (job, "fail", 3)
        assert content["name"] == "train\nX: y"
        assert request.headers["Rankd-Event-Id"] == str(content["id"])
        key = (tmp_path / "notify.key").read_text().strip()
        expected = hmac.new(key.encode(), request.body, hashlib.sha256).hexdigest()
        assert request.headers["Rankd-Signature"] == f"sha256={expected}"
        await true_in_time(lambda: not waiting(stage))
        assert hook.requests.empty()


async def test_a_mail_has_one_subject_and_one_address_whatever_the_job_is_called(broker, tmp_path):
    mailbox = Mailbox()
    async with a_mail_server(mailbox) as port:
        settings = {"allow": ["mailto:*@example.org"], "smtp": f"smtp://127.0.0.1:{port}", "mail_domain": "example.org"}
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"]}, name="a\r\nBcc: eve@example.org\r\n\r\n<b>html</b>")
            envelope = await mailbox.got()
            assert envelope.rcpt_tos == ["alice@example.org"]
            mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
            assert mail.get_content_type() == "text/plain"
            assert mail["Bcc"] is None
            assert mail["Subject"].startswith("rankd: job 1 completed (a\\r\\nBcc: eve@example.org")
            assert mail["From"] == "rankd@example.org"
            assert mail["Message-ID"].endswith("-0@example.org>")
            assert "<b>html</b>" in mail.get_content()


async def test_a_receiver_that_is_down_gets_it_when_it_is_back(broker, tmp_path):
    hook = Hook(tmp_path)
    async with hook:
        pass
    async with a_site(broker, tmp_path, **for_hook(hook)) as stage, stage.notifier(broker):
        await stage.ends(notify={"on": ["end"], "to": [hook.url]})
        await true_in_time(lambda: stage.rows("SELECT attempts FROM notifications") >= [(2,)])
        async with hook:
            await hook.got()
            await true_in_time(lambda: not waiting(stage))


async def test_one_that_hangs_holds_up_nobody(broker, tmp_path):
    (tmp_path / "slow").mkdir()
    (tmp_path / "good").mkdir()
    async with Hook(tmp_path / "slow", None) as slow, Hook(tmp_path / "good") as good:
        both = tmp_path / "both.pem"
        both.write_text(slow.ca.read_text() + good.ca.read_text())
        settings = for_hook(good, allow=["https://localhost:*/*"], time_limit_s=120, ca_file=both)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            for _ in range(6):
                await stage.ends("bob", notify={"on": ["end"], "to": [slow.url]})
            await stage.ends(notify={"on": ["end"], "to": [good.url]})
            await good.got()
            for _ in range(IN_LANE):
                await slow.got()
            assert waiting(stage) >= 6
            assert slow.requests.empty(), "so many at once, and no more"


async def test_one_that_never_answers_is_tried_again_within_its_time(broker, tmp_path):
    async with Hook(tmp_path, None, OK) as hook:
        settings = for_hook(hook, time_limit_s=0.2)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"], "to": [hook.url]})
            first, second = await hook.got(), await hook.got()
            assert first.headers["Rankd-Event-Id"] == second.headers["Rankd-Event-Id"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://localhost/other\r\n\r\n", "redirect"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "404"),
        (b"nonsense\r\n", "not HTTP"),
        (b"x" * 100_000, "connection failed"),
        (b"HTTP/1.1 100 Continue\r\n" + b"A: b\r\n" * 200, "too many lines"),
        (b"", "without an answer"),
    ],
)
async def test_what_is_no_success_becomes_a_dead_letter_that_can_be_retried(broker, tmp_path, answer, why):
    async with Hook(tmp_path, answer) as hook:
        settings = for_hook(hook, retry_for_s=1)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker, pauses=FAR):
            await stage.ends(notify={"on": ["end"], "to": [hook.url]})
            await stage.until(lambda: letters(stage))
            [(code, message)] = letters(stage)
            assert code == "notification_failed"
            assert why in message
            [letter] = (await stage.do("deadletter.list")).body["letters"]
            assert (letter["kind"], letter["user"]) == ("notification", "alice")
            assert (await stage.do("deadletter.list", user="bob")).body["letters"] == []
            [failed] = (await stage.do("deadletter.retry", {"ids": [letter["id"]]}, "bob")).body["failed"]
            assert failed["code"] == "unknown_dead_letter"
            hook.answers = [OK]
            while not hook.requests.empty():
                hook.requests.get_nowait()
            assert (await stage.do("deadletter.retry", {"ids": [letter["id"]]})).body["done"] == [{"id": 1, "jobs": []}]
            await hook.got()
            await true_in_time(lambda: not waiting(stage))


async def test_a_private_address_is_refused_unless_the_host_is_named(broker, tmp_path):
    async with Hook(tmp_path) as hook:
        settings = for_hook(hook, private_hosts=[], retry_for_s=1)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker, pauses=FAR):
            await stage.ends(notify={"on": ["end"], "to": [hook.url]})
            await stage.until(lambda: letters(stage))
            assert "private network" in letters(stage)[0][1]
            assert hook.requests.empty()


async def test_a_certificate_of_another_ca_is_refused(broker, tmp_path):
    async with Hook(tmp_path) as hook:
        other = Authority(tmp_path, "other")
        settings = for_hook(hook, ca_file=other.ca, retry_for_s=1)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker, pauses=FAR):
            await stage.ends(notify={"on": ["end"], "to": [hook.url]})
            await stage.until(lambda: letters(stage))
            assert "CERTIFICATE_VERIFY_FAILED" in letters(stage)[0][1]
            assert hook.requests.empty()


async def test_a_pattern_that_was_removed_counts_when_it_is_sent(broker, tmp_path):
    async with Hook(tmp_path, BUSY) as hook:
        settings = for_hook(hook)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"], "to": [hook.url]})
            await hook.got()
            stage.configure(**for_hook(hook, allow=["https://example.org/*"]))
            assert (await stage.ask("rankd.v1.admin.root.config.reload")).status is None
            await stage.until(lambda: letters(stage))
            assert letters(stage)[0][0] == "notification_not_allowed"


async def test_a_notifier_that_was_away_notes_what_happened_meanwhile(broker, tmp_path):
    async with Hook(tmp_path) as hook, a_site(broker, tmp_path, **for_hook(hook)) as stage:
        first = await stage.ends(notify={"on": ["end"], "to": [hook.url]})
        async with stage.notifier(broker):
            assert json.loads((await hook.got()).body)["job"] == first
        second = await stage.ends(notify={"on": ["end"], "to": [hook.url]})
        async with stage.notifier(broker):
            while (job := json.loads((await hook.got()).body)["job"]) != second:
                assert job == first, "sent again, if the notifier ended before it had recorded that it was sent"


async def test_what_the_stream_has_lost_is_found_in_the_records(broker, tmp_path):
    async with Hook(tmp_path) as hook, a_site(broker, tmp_path, **for_hook(hook)) as stage:
        job = await stage.ends(notify={"on": ["end"], "to": [hook.url]})
        published = "SELECT event_id FROM relay_marks WHERE name = 'job_events'"
        await true_in_time(lambda: stage.rows(published) >= [(4,)])
        await stage.connection.jetstream().purge_stream("RANKD_EVENTS")
        async with stage.notifier(broker):
            assert json.loads((await hook.got()).body)["job"] == job


async def test_a_message_that_can_not_be_read_is_passed(broker, tmp_path):
    async with Hook(tmp_path) as hook, a_site(broker, tmp_path, **for_hook(hook)) as stage, stage.notifier(broker):
        for garbage in (b"\xff", b"[]", b'{"events":[{"id":"x"}]}'):
            await stage.connection.publish("rankd.v1.event.job.alice", garbage)
        job = await stage.ends(notify={"on": ["end"], "to": [hook.url]})
        assert json.loads((await hook.got()).body)["job"] == job
        shown = (await stage.ask("rankd.v1.admin.root.diag.show")).body
        assert shown["notifier"]["unreadable"] == {"RANKD_EVENTS": 3}
        assert shown["notifier"]["noted"] == 1
        assert shown["notifications"]["waiting"] in (0, 1)


async def test_an_address_that_the_mail_server_does_not_know_is_not_tried_again(broker, tmp_path):
    mailbox = Mailbox(refuses=("nobody@example.org",))
    async with a_mail_server(mailbox) as port:
        settings = {"allow": ["mailto:*@example.org"], "smtp": f"smtp://127.0.0.1:{port}"}
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"], "to": ["mailto:nobody@example.org", "mailto:alice@example.org"]})
            assert (await mailbox.got()).rcpt_tos == ["alice@example.org"]
            await stage.until(lambda: letters(stage))
            assert "550 no such user" in letters(stage)[0][1]


async def test_a_mail_server_with_tls_gets_the_password_and_no_log_does(broker, tmp_path, caplog):
    authority = Authority(tmp_path)
    pair = authority.issue("mail", "localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    seen = []

    def check(_server, _session, _envelope, _mechanism, data):
        from aiosmtpd.smtp import AuthResult

        seen.append((data.login, data.password))
        return AuthResult(success=data.password == b"S3CRET", handled=False)

    (tmp_path / "password").write_text("S3CRET\n")
    mailbox = Mailbox()
    tls = {"tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": check}
    async with a_mail_server(mailbox, **tls) as port:
        settings = {
            "allow": ["mailto:*@example.org"], "smtp": f"smtp+starttls://127.0.0.1:{port}", "ca_file": authority.ca,
            "smtp_user": "rankd", "smtp_password_file": tmp_path / "password",
        }  # fmt: skip
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"], "to": ["mailto:alice@example.org"]})
            await mailbox.got()
            (tmp_path / "password").write_text("WR0NG\n")
            await stage.ends(notify={"on": ["end"], "to": ["mailto:alice@example.org"]})
            await true_in_time(lambda: stage.rows("SELECT problem FROM notifications WHERE problem IS NOT NULL"))
            [(problem,)] = stage.rows("SELECT problem FROM notifications WHERE problem IS NOT NULL")
            assert "refused the login" in problem
    assert seen[0] == (b"rankd", b"S3CRET")
    assert "S3CRET" not in caplog.text
    assert "WR0NG" not in caplog.text + problem


async def test_a_mail_server_that_hangs_is_given_up_in_time(broker, tmp_path):
    async def hang(reader, _writer):
        await reader.read()

    async with a_server(hang) as port:
        settings = {"allow": ["mailto:*@example.org"], "smtp": f"smtp://127.0.0.1:{port}", "time_limit_s": 0.2}
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            await stage.ends(notify={"on": ["end"], "to": ["mailto:alice@example.org"]})
            await true_in_time(lambda: stage.rows("SELECT attempts FROM notifications") >= [(2,)])


async def test_a_site_that_allows_nothing_refuses(broker, tmp_path):
    async with a_site(broker, tmp_path) as stage:
        job = {"command": ["true"], "notify": {"on": ["end"], "to": ["mailto:alice@example.org"]}}
        reply = await stage.do("job.submit", job)
        assert (reply.status, reply.body["code"]) == (403, "notification_not_allowed")
