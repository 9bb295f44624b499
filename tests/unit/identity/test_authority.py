"""A site's certificates: checked by OpenSSL, in a handshake without a network."""

import ssl
import time

import pytest
from cryptography import x509

from rankd.core.errors import Refused
from rankd.identity.authority import issue, names_in
from rankd.identity.site import Site

NOW = time.time()
SEED = Site(bytes(32)).authority_seed()
DAY = 86_400.0


def shake_hands(ca, issued, host, tmp_path):
    """Client and server until both have finished."""
    (tmp_path / "broker.pem").write_text(issued.certificate)
    (tmp_path / "broker.key").write_text(issued.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker.key")
    client = ssl.create_default_context(cadata=ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(here, there, server_hostname=host),
        server.wrap_bio(there, here, server_side=True),
    ]
    waiting = set(sides)
    while waiting:
        for side in sides:
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                pass


@pytest.mark.parametrize("host", ["head", "head.lab.example", "127.0.0.1", "::1"])
def test_openssl_accepts_it_for_each_of_its_names(host, tmp_path):
    issued = issue(SEED, ["head", "head.lab.example", "127.0.0.1", "::1"], NOW)
    shake_hands(issued.ca, issued, host, tmp_path)


def test_another_name_is_refused(tmp_path):
    issued = issue(SEED, ["head"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(issued.ca, issued, "elsewhere", tmp_path)


def test_what_a_site_gave_out_before_counts_for_what_it_makes_later(tmp_path):
    """Credentials hold the CA's certificate of the day on which they were written."""
    before, later = issue(SEED, ["head"], NOW - 300 * DAY), issue(SEED, ["head"], NOW)
    assert before.ca != later.ca
    shake_hands(before.ca, later, "head", tmp_path)
    shake_hands(later.ca, before, "head", tmp_path)


def test_another_site_is_another_ca(tmp_path):
    other = Site(b"\1" * 32).authority_seed()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(issue(other, ["head"], NOW).ca, issue(SEED, ["head"], NOW), "head", tmp_path)


def test_the_brokers_certificate_signs_no_other():
    certificate = x509.load_pem_x509_certificate(issue(SEED, ["head"], NOW).certificate.encode())
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert not usage.key_cert_sign


def test_each_start_has_a_key_of_its_own():
    one, two = issue(SEED, ["head"], NOW), issue(SEED, ["head"], NOW)
    assert one.key != two.key
    assert one.key not in repr(one)


def test_the_cas_key_is_not_a_key_of_an_account():
    """All come from one secret, and none tells another."""
    site = Site(bytes(32))
    assert len(site.authority_seed()) == 48
    assert site.authority_seed() != Site(b"\1" * 32).authority_seed()


def test_names_are_read_back(tmp_path):
    file = tmp_path / "broker.pem"
    names = ["head", "127.0.0.1", "::1"]
    issued = issue(SEED, names, NOW)
    file.write_text(issued.certificate + issued.ca)
    assert sorted(names_in(file)) == sorted(names)


@pytest.mark.parametrize("name", ["", "a..b", "x" * 300])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(Refused, match="neither a host's name nor an address"):
        issue(SEED, [name], NOW)


def test_a_file_without_a_certificate_or_without_names_is_refused(tmp_path):
    file = tmp_path / "x.pem"
    for text, said in (("", "holds no certificate"), (issue(SEED, ["h"], NOW).ca, "names no host")):
        file.write_text(text)
        with pytest.raises(Refused, match=said):
            names_in(file)
