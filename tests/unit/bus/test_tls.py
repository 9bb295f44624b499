"""Files that can't be used are named before anything is sent; tests/integration/test_tls.py has real servers."""

import ssl

import pytest
from certificates import Authority

from rankd.bus.client import NotEncryptedError
from rankd.bus.tls import Encryption
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused

URL = "tls://broker:4222"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.mark.parametrize(
    ("url", "files", "ca_text", "is_required"),
    [
        ("nats://h", TlsFiles(), "", False),
        ("tls://h", TlsFiles(), "", True),
        ("nats://h", TlsFiles(ca="f"), "", True),
        ("nats://h", TlsFiles(cert="f"), "", True),
        ("nats://h", TlsFiles(), "a certificate", True),
    ],
)
def test_what_demands_encryption(url, files, ca_text, is_required):
    encryption = Encryption(url, files)
    encryption.believe(ca_text)
    assert encryption.is_required is is_required


def test_the_host_is_the_one_in_the_url_whatever_the_server_says():
    assert Encryption("tls://[fd00::1]:4222", TlsFiles()).host == "fd00::1"


def test_a_context_checks_the_certificate_and_the_name(authority):
    context = Encryption(URL, TlsFiles(ca=authority.ca)).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_named_ca_counts_in_place_of_those_of_the_system(authority):
    assert len(Encryption(URL, TlsFiles(ca=authority.ca)).context().get_ca_certs()) == 1
    encryption = Encryption(URL, TlsFiles())
    encryption.believe(authority.ca.read_text())
    assert len(encryption.context().get_ca_certs()) == 1


def test_a_file_that_can_not_be_used_is_named(authority, tmp_path):
    own, other = authority.issue("own", "own"), authority.issue("other", "other")
    (tmp_path / "empty").write_text("")
    cases = [
        (TlsFiles(ca=tmp_path / "none"), "none can't be used for encrypted connections: No such file", "ca"),
        (TlsFiles(ca=tmp_path / "empty"), "empty can't be used", "ca"),
        (TlsFiles(ca=tmp_path), "can't be used", "ca"),
        (TlsFiles(cert=own.certificate, key=other.key), "own.pem with the key", "tls_cert"),
        (TlsFiles(cert=own.certificate), "own.pem with the key", "tls_cert"),
        (TlsFiles(key=own.key), "give --tls-cert FILE too", "tls_cert"),
    ]
    for files, said, field in cases:
        with pytest.raises(Refused, match=said.replace("(", r"\(")) as refused:
            Encryption(URL, files).context()
        assert (refused.value.code, refused.value.field) == ("bad_certificate", field)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(authority):
    """OpenSSL would ask on the terminal, and wait."""
    own = authority.issue("own", "own", password=b"secret")
    with pytest.raises(Refused, match="the key is encrypted; write it without a password"):
        Encryption(URL, TlsFiles(cert=own.certificate, key=own.key)).context()


def test_files_that_become_unusable_leave_those_of_before_in_use(authority, caplog):
    encryption = Encryption(URL, TlsFiles(ca=authority.ca))
    before = encryption.context()
    authority.ca.write_text("half of it")
    assert encryption.context() is before
    assert "with the certificates of before" in caplog.text


def fault(error):
    return Encryption(URL, TlsFiles()).fault(error, "broker")


def unverified(code, message="self-signed"):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NotEncryptedError("x"), "not_encrypted", "does not encrypt"),
        (unverified(10), "not_trusted", "has expired"),
        (unverified(9), "not_trusted", "not valid yet"),
        (unverified(18), "unknown_ca", "--ca FILE"),
        (unverified(20), "unknown_ca", "--ca FILE"),
        (unverified(62), "not_trusted", "does not name 'broker'"),
        (unverified(64), "not_trusted", "--tls-name broker"),
        (unverified(23, "certificate revoked"), "not_trusted", "is not accepted: certificate revoked"),
    ],
)
def test_each_failure_says_what_to_do(error, code, said):
    found = fault(error)
    assert found.code == code
    assert said in found.message
    assert "tls://broker:4222" in found.message


def test_other_failures_may_pass():
    for error in (ConnectionRefusedError(), ssl.SSLEOFError(), ssl.SSLError(1, "handshake"), TimeoutError()):
        assert fault(error) is None
