"""Files of credentials: their form is NATS' own, they are private, and what is damaged is refused."""

import stat
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.errors import Refused, Unavailable
from rankd.identity.authority import issue
from rankd.identity.credentials import (
    certificates_in,
    parse_credentials,
    read_credentials,
    source_of,
    write_private,
)
from rankd.identity.site import Role, Site

SITE = Site(bytes(32))
ALICE = SITE.credentials(Role.USER, "alice", 1.7e9)


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "alice.creds"
    write_private(file, ALICE.text())
    assert read_credentials(file) == ALICE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["alice.creds"]


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_can_not(tmp_path):
    file = tmp_path / "alice.creds"
    file.write_text("old")
    file.chmod(0o666)
    write_private(file, ALICE.text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "of-another").write_text("untouched")
    (tmp_path / "alice.creds").symlink_to(tmp_path / "of-another")
    write_private(tmp_path / "alice.creds", ALICE.text())
    assert (tmp_path / "of-another").read_text() == "untouched"


def test_the_form_is_the_one_that_nats_py_reads(tmp_path):
    """With nats-py's own reader of such files."""
    from nats.aio.client import Client

    file = tmp_path / "alice.creds"
    write_private(file, ALICE.text())
    client = Client()
    client._user_credentials = str(file)
    client._setup_nkeys_jwt_connect()
    assert bytes(client._user_jwt_cb()).decode() == ALICE.token


def test_the_certificate_of_the_ca_is_kept_and_other_clients_ignore_it(tmp_path):
    """With nats-py's own reader; that of Go takes the first block and the second one."""
    from nats.aio.client import Client

    ca = issue(Site(bytes(32)).authority_seed(), ["head"], time.time()).ca
    credentials = ALICE._replace(ca=ca)
    file = tmp_path / "alice.creds"
    write_private(file, credentials.text())
    assert read_credentials(file) == credentials
    assert file.read_text().startswith("-----BEGIN NATS USER JWT-----")
    client = Client()
    assert client._read_creds_user_jwt(str(file)).decode() == ALICE.token
    assert client._read_creds_user_nkey(str(file)).decode() == ALICE.seed


def test_only_certificates_are_taken_from_a_text():
    ca = issue(Site(bytes(32)).authority_seed(), ["head"], time.time()).ca
    assert certificates_in(f"a comment\n{ca}-----BEGIN X-----\nabc\n-----END X-----\n{ca}") == ca + ca
    assert certificates_in("-----BEGIN CERTIFICATE-----\n<script>\n-----END CERTIFICATE-----\n") == ""


def test_secrets_are_not_shown():
    assert ALICE.seed not in repr(ALICE)
    assert ALICE.token not in repr(ALICE)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "-----END NATS USER JWT-----"])
def test_a_name_does_not_change_the_form(name):
    credentials = SITE.credentials(Role.USER, name, time.time())
    assert parse_credentials(credentials.text()) == credentials
    assert "\x1b" not in credentials.text()


@given(st.text(max_size=300))
def test_any_other_text_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - several reasons
        parse_credentials(text)


@pytest.mark.parametrize("damage", [("SU", "SX"), ("BEGIN", "BEGUN"), (".", "")])
def test_a_damaged_file_is_refused(tmp_path, damage):
    file = tmp_path / "alice.creds"
    file.write_text(ALICE.text().replace(*damage))
    with pytest.raises(Refused) as refused:
        read_credentials(file)
    assert refused.value.code == "bad_credentials"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Unavailable, match=r"none\.creds can't be read: No such file") as missing:
        read_credentials(tmp_path / "none.creds")
    assert missing.value.code == "no_credentials"


def test_the_source_reads_the_file_each_time(tmp_path):
    file = tmp_path / "alice.creds"
    write_private(file, ALICE.text())
    source = source_of(file)
    assert source() == ALICE
    newer = SITE.credentials(Role.USER, "alice", 1.8e9)
    write_private(file, newer.text())
    assert source() == newer
    assert source_of(None) is None
