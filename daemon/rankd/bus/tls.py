"""Encrypted connections to the broker: which certificates count, and what each failure means.

NATS begins in plain text: the server's first line says whether it encrypts. A machine in between could change it,
so a connection that has to be encrypted is refused if it is not, before anything is sent.
"""

from __future__ import annotations

import logging
import ssl
from typing import NoReturn

from rankd.bus.address import host_in, is_encrypted, urls_in, without_secret
from rankd.bus.client import NotEncryptedError
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused

log = logging.getLogger("rankd.bus")

_EXPIRED, _NOT_YET = 10, 9
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21, 24, 26})
_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's ``verify_code``: why it does not accept a certificate."""
_REFUSES_US = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNKNOWN")
"""In OpenSSL's ``reason``: the server does not accept the certificate of this side."""


class Encryption:
    """Whether connections to one broker have to be encrypted, and with which certificates."""

    def __init__(self, url: str, tls: TlsFiles) -> None:
        self._url = without_secret(url)
        self._scheme_demands = is_encrypted(url)
        self._tls = tls
        self._ca_text = ""
        self._context: ssl.SSLContext | None = None
        hosts = [host_in(one) for one in urls_in(url)]
        self.host = hosts[0] if len(hosts) == 1 else None
        """The name that the certificate has to have. None with several brokers: each one its own."""

    def believe(self, ca_text: str) -> None:
        """Accept certificates that this CA has signed, too: the one in the credentials, in PEM form."""
        self._ca_text = ca_text

    @property
    def is_required(self) -> bool:
        """Whether a connection in plain text is refused: the URL is ``tls://``, or a CA was named."""
        return self._scheme_demands or bool(self._ca_text) or any(self._tls)

    def context(self) -> ssl.SSLContext:
        """What the next handshake needs. If the files can't be used now, what they held before counts.

        Raises:
            Refused: ``bad_certificate``: a file can't be used, and none could before.
        """
        try:
            self._context = self._made()
        except Refused as error:
            if self._context is None:
                raise
            log.warning("bus: connecting with the certificates of before: %s", error.message)
        return self._context

    def _made(self) -> ssl.SSLContext:
        tls = self._tls
        if tls.key is not None and tls.cert is None:
            raise Refused("bad_certificate", "a key needs its certificate: give --tls-cert FILE too", "tls_cert")
        made = self._with_authorities()
        if tls.cert is not None:
            try:
                made.load_cert_chain(tls.cert, tls.key, password=_no_password)
            except (OSError, ValueError) as error:
                raise _unusable(f"{tls.cert} with the key {tls.key or tls.cert}", error, "tls_cert") from None
        return made

    def _with_authorities(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=self._tls.ca, cadata=self._ca_text or None)
        except (OSError, ValueError) as error:
            raise _unusable(str(self._tls.ca or "the CA's certificate in the credentials"), error, "ca") from None
        return made

    def fault(self, error: BaseException, host: str) -> Refused | None:
        """What a failed attempt to connect to a host means; None if it may succeed later without any change."""
        if isinstance(error, NotEncryptedError):
            return Refused("not_encrypted", self._plain(), "nats")
        if isinstance(error, ssl.SSLCertVerificationError):
            code = "unknown_ca" if error.verify_code in _UNKNOWN_CA else "not_trusted"
            return Refused(
                code, f"the certificate of the NATS server at {self._url} {self._why(error, self.host or host)}", "ca"
            )
        if isinstance(error, ssl.SSLError) and any(word in _reason(error) for word in _REFUSES_US):
            return Refused("not_authorized", self._unwanted(), "tls_cert", status=401)
        return None

    def _plain(self) -> str:
        because = "the URL begins with tls://" if self._scheme_demands else "a CA's certificate or a key was given"
        if self._ca_text and not self._scheme_demands:
            because = "the credentials are of a site that encrypts"
        return (
            f"the NATS server at {self._url} does not encrypt its connections, and {because};"
            " let it encrypt, or use nats:// and credentials made while it does not"
        )

    def _why(self, error: ssl.SSLCertVerificationError, host: str) -> str:
        code = error.verify_code
        if code == _EXPIRED:
            return "has expired; its administrator has to renew it (a `rankd up` makes its own new at each start)"
        if code == _NOT_YET:
            return "is not valid yet; compare the clocks of both machines"
        if code in _OTHER_NAME:
            return (
                f"does not name '{host}'; connect by a name that it has, or let its administrator add this one"
                f" (`rankd up --tls-name {host}`)"
            )
        if code in _UNKNOWN_CA:
            return (
                "is signed by a CA that is not known here; give the CA's certificate with --ca FILE, or credentials"
                " that hold it (`rankd auth creds` writes such a file)"
            )
        return f"is not accepted: {error.verify_message}"

    def _unwanted(self) -> str:
        if self._tls.cert is None:
            return (
                f"the NATS server at {self._url} wants a certificate of its clients; give --tls-cert FILE and"
                " --tls-key FILE"
            )
        return f"the NATS server at {self._url} does not accept the certificate in {self._tls.cert}; get a new one"


def _reason(error: ssl.SSLError) -> str:
    return getattr(error, "reason", None) or ""


def _no_password() -> NoReturn:
    """OpenSSL would ask on the terminal, and a service would wait for ever."""
    raise ValueError("the key is encrypted; write it without a password, readable by its owner only")


def _unusable(what: str, error: Exception, field: str) -> Refused:
    reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else str(error)
    return Refused("bad_certificate", f"{what} can't be used for encrypted connections: {reason}", field)
