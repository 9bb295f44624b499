"""The settings of notifications, and the mail server among them."""

import pytest

from rankd.config.notification_rule import MailServer, check_notifications, mail_server, sender, unreachable_targets
from rankd.core.model.service_setting import NotificationSettings


def paths(**fields) -> list[str]:
    return [problem.path for problem in check_notifications(NotificationSettings(**fields), "rankd.toml")]


def test_the_default_is_good():
    assert paths() == []


def test_a_whole_configuration_is_good():
    assert paths(
        allow=["mailto:*@example.org", "https://hooks.lan:*/*"], private_hosts=["hooks.lan", "[::1]"],
        mail_domain="example.org", smtp="smtp+starttls://mail.example.org", smtp_user="rankd",
        smtp_password_file="/etc/rankd/smtp", mail_from="jobs@example.org",
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"allow": ["*"]}, "allow[0]"),
        ({"allow": ["mailto:*@a.org"]}, "smtp"),
        ({"private_hosts": ["*.lan"]}, "private_hosts[0]"),
        ({"mail_domain": "A@b"}, "mail_domain"),
        ({"mail_from": "rankd <a@b.org>"}, "mail_from"),
        ({"smtp": "smtp://user:password@mail.org"}, "smtp"),
        ({"smtp": "http://mail.org"}, "smtp"),
        ({"smtp": "smtp://mail.org:99999"}, "smtp"),
        ({"smtp": "smtp://mail.org", "smtp_user": "a", "smtp_password_file": "f"}, "smtp"),
        ({"smtp": "smtps://mail.org", "smtp_user": "a"}, "smtp_user"),
    ],
)
def test_what_can_not_work_is_reported(fields, path):
    assert paths(**fields) == [f"notifications.{path}"]


def test_servers():
    assert mail_server("smtp://localhost") == MailServer("localhost", 25)
    assert mail_server("smtps://[::1]:4650/") == MailServer("::1", 4650, is_tls=True)


def test_the_sender():
    assert sender(NotificationSettings(mail_from="a@b.org", mail_domain="c.org")) == "a@b.org"
    assert sender(NotificationSettings(mail_domain="c.org")) == "rankd@c.org"
    assert sender(NotificationSettings(smtp="smtp://mail.org")) == "rankd@mail.org"


@pytest.mark.parametrize(
    ("pattern", "private_hosts", "warns"),
    [
        ("https://localhost:8443/*", [], True),
        ("https://127.0.0.1/*", [], True),
        ("https://10.1.2.3/*", [], True),
        ("https://[::1]:8443/*", [], True),
        ("https://localhost:8443/*", ["localhost"], False),
        ("https://8.8.8.8/*", [], False),
        ("https://hooks.example.org/*", [], False),
        ("https://*.localdomain/*", [], False),
        ("mailto:*@localhost", [], False),
    ],
)
def test_an_allowed_private_host_that_is_not_listed_draws_a_warning(pattern, private_hosts, warns):
    settings = NotificationSettings(allow=[pattern], private_hosts=private_hosts)
    found = list(unreachable_targets(settings, "rankd.toml"))
    assert [problem.path for problem in found] == (["notifications.allow[0]"] if warns else [])
