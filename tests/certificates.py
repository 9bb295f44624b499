"""Certificates for tests: a CA, and what it signs. Made in the test, with keys that nobody else has."""

from __future__ import annotations

import datetime as dt
import ipaddress
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

DAY = dt.timedelta(days=1)


class Pair(NamedTuple):
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A CA with its certificate in ``ca``. ``days``: from when until when a certificate is valid, from now."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"test {name}")])
        self.ca = directory / f"{name}.pem"
        made = (
            self._begun(self._name, self._key.public_key(), (-2, 2))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .sign(self._key, SHA256())
        )
        self.ca.write_bytes(made.public_bytes(Encoding.PEM))

    def issue(self, name: str, *names: str, days: tuple[float, float] = (-1, 1), password: bytes | None = None) -> Pair:
        """A certificate for hosts and addresses, in ``name.pem``, and its key in ``name.key``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            self._begun(subject, key.public_key(), days)
            .add_extension(x509.SubjectAlternativeName([_general(one) for one in names]), critical=False)
            .add_extension(identifier, critical=False)
            .sign(self._key, SHA256())
        )
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        pair.certificate.write_bytes(made.public_bytes(Encoding.PEM))
        hidden = NoEncryption() if password is None else BestAvailableEncryption(password)
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
        pair.key.chmod(0o600)
        return pair

    def _begun(self, subject: x509.Name, public: ec.EllipticCurvePublicKey, days: tuple[float, float]):
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)
