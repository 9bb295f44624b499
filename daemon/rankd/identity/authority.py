"""A site's certificates for encrypted connections: a CA of its own, and the broker's certificate.

The CA's key comes from the site's secret, so it is not stored. Certificates are made again at each start. Earlier ones
stay valid, since the CA keeps its name and its key. Only this module imports the library that makes them.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rankd.core.errors import Refused

CURVE = ec.SECP256R1()
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256 (SEC 2, section 2.4.2). A private key is a number from 1 to this one, without it."""
_BOTH_ENDS = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
"""Brokers of a cluster show their certificates to each other."""
CA_LASTS = dt.timedelta(days=3_652)
BROKER_LASTS = dt.timedelta(days=1_826)
EARLIER = dt.timedelta(hours=1)
"""Certificates are valid from this long before they were made: clocks differ."""


class Issued(NamedTuple):
    """The CA's certificate, the broker's certificate and the broker's key, in PEM form. The key is a secret."""

    ca: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Issued(…)"


def issue(seed: bytes, names: Sequence[str], now: float) -> Issued:
    """Make certificates. ``seed``: 48 bytes, from which the CA's key comes. ``names``: hosts and addresses.

    ``now`` is in UTC seconds.
    """
    ca_key = ec.derive_private_key(int.from_bytes(seed) % (ORDER - 1) + 1, CURVE)
    key = ec.generate_private_key(CURVE)
    at = dt.datetime.fromtimestamp(now, dt.UTC)
    ca = _authority(ca_key, at)
    certificate = _broker(key.public_key(), names, ca, ca_key, at)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(_pem(ca), _pem(certificate), secret.decode())


def names_in(path: Path) -> list[str]:
    """The hosts and addresses that a certificate is for; the first one of a chain counts.

    Raises:
        Refused: ``bad_certificate``: this is not a certificate.
        OSError: it can't be read.
    """
    try:
        certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, IndexError) as error:
        raise Refused("bad_certificate", f"{path} holds no certificate: {error}", "tls_cert") from None
    except x509.ExtensionNotFound:
        message = f"the certificate in {path} names no host (it has no subjectAltName); get another one"
        raise Refused("bad_certificate", message, "tls_cert") from None
    names = alternative.get_values_for_type(x509.DNSName)
    return [*names, *(str(address) for address in alternative.get_values_for_type(x509.IPAddress))]


def _authority(key: ec.EllipticCurvePrivateKey, at: dt.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"rankd CA {_fingerprint(key)}")])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    return (
        _begun(name, name, key.public_key(), at, CA_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )


def _broker(
    public: ec.EllipticCurvePublicKey,
    names: Sequence[str],
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    at: dt.datetime,
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rankd broker")])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        _begun(name, ca.subject, public, at, BROKER_LASTS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_BOTH_ENDS), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(one) for one in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(identifier, critical=False)
        .sign(ca_key, SHA256())
    )


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    at: dt.datetime,
    lasts: dt.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - EARLIER)
        .not_valid_after(at + lasts)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _fingerprint(key: ec.EllipticCurvePrivateKey) -> str:
    """Distinguishes the CAs of several sites, by name."""
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()[:16]


def _general(name: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    with suppress(ValueError):
        if host := name.encode("idna").decode():
            return x509.DNSName(host)
    message = f"'{name}' can't be in a certificate: it is neither a host's name nor an address"
    raise Refused("usage", message, "tls_name")


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
