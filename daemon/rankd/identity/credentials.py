"""Credentials of a connection: a signed token and the key that it is about, in the ``.creds`` form of NATS.

Behind them, a file may hold the certificate of the CA of the broker. Other NATS clients ignore that part.
Imports no cryptography, so that commands start fast.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rankd.core.errors import Refused, Unavailable
from rankd.identity.token import ReadClaims, read_claims

CA_FILE = "ca.pem"
"""The certificate with which the broker's one is checked; exists only while the broker encrypts its connections."""
SERVICES_CREDENTIALS = "services.creds"
"""The credentials of the services, beside those of the site's owner."""
NOTIFIER_CREDENTIALS = "notifier.creds"
"""The credentials of the notifier, which reach less than those of the services."""
WEB_CREDENTIALS, WEB_GATEWAY_CREDENTIALS = "web.creds", "web-gateway.creds"
"""The credentials of the page: to answer about its health, and to ask for the users whom it has signed in."""
OWNER_ONLY = 0o600
MOST_BYTES = 64 * 2**10

_FORM = """\
-----BEGIN NATS USER JWT-----
{token}
------END NATS USER JWT------

************************* IMPORTANT *************************
Anyone who has this file can act as {role} '{name}'. Keep it to yourself.

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------
"""
SEED = re.compile(r"SU[A-Z2-7]{56}")
"""The private half of a user's key."""
_CERTIFICATE = re.compile(r"^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----$", re.MULTILINE)
_BLOCK = re.compile(r"-{3,}BEGIN [^-\n]*-{3,}\s*([A-Za-z0-9_.=-]+?)\s*-{3,}END [^-\n]*-{3,}")


class Credentials(NamedTuple):
    """A user's token and seed. The seed is a secret: neither is shown by ``repr``.

    ``ca``: the certificate (PEM) with which a broker's one is checked; empty where its connections are not encrypted,
    or where its certificate is signed by a CA that all systems know.
    """

    token: str
    seed: str
    ca: str = ""

    def __repr__(self) -> str:
        return "Credentials(…)"

    def claims(self) -> ReadClaims:
        """Whom they are for.

        Raises:
            ValueError: the token can't be read.
        """
        return read_claims(self.token)

    def text(self) -> str:
        """As a ``.creds`` file has them, for any NATS client."""
        claims = self.claims()
        name = "".join(char if char.isprintable() else "?" for char in claims.name)
        form = _FORM.format(token=self.token, seed=self.seed, name=name, role=claims.role or "user")
        return f"{form}\n{self.ca}" if self.ca else form


Source = Callable[[], Credentials]
"""Returns the credentials for a connection that is about to be made; they may be other ones than the last time."""


def certificates_in(text: str) -> str:
    """The certificates of a text in PEM form, without what is between them."""
    return "".join(f"{block}\n" for block in _CERTIFICATE.findall(text))


def parse_credentials(text: str) -> Credentials:
    """Read the text of a ``.creds`` file.

    Raises:
        ValueError: a part is missing or damaged.
    """
    blocks = _BLOCK.findall(text)
    if len(blocks) != 2:
        raise ValueError("a file of credentials has a token (BEGIN NATS USER JWT) and a seed (BEGIN USER NKEY SEED)")
    token, seed = blocks
    credentials = Credentials(token, seed, certificates_in(text))
    credentials.claims()
    if SEED.fullmatch(credentials.seed) is None:
        raise ValueError("the seed of the key is damaged")
    return credentials


def read_credentials(path: Path) -> Credentials:
    """Read a ``.creds`` file.

    Raises:
        Unavailable: ``no_credentials``: it can't be read.
        Refused: ``bad_credentials``: it holds something else.
    """
    try:
        with path.open("rb") as opened:
            return parse_credentials(opened.read(MOST_BYTES).decode())
    except OSError as error:
        message = f"the credentials in {path} can't be read: {error.strerror or error}"
        raise Unavailable("no_credentials", message) from None
    except ValueError as error:
        raise Refused("bad_credentials", f"{path} holds no credentials: {error}", "creds") from None


def source_of(path: Path | None) -> Source | None:
    """Credentials that are read from a file at every connection; None without a file."""
    return None if path is None else partial(read_credentials, path)


def write_private(path: Path, text: str) -> None:
    """Replace a file whole; only its owner can read it, from its first byte on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(handle)
    temporary.replace(path)
