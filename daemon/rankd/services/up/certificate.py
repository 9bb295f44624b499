"""The certificate of the embedded broker: made by rankd for the names of this machine, or given by an administrator."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rankd.bus.tls import Encryption
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused, usable
from rankd.identity.credentials import CA_FILE, certificates_in, write_private
from rankd.identity.site import Site
from rankd.services.up.address import reached
from rankd.services.up.command import UpOptions

CERTIFICATE_FILE, KEY_FILE = "broker.pem", "broker.key"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
IPV6_ADDRESSES = Path("/proc/net/if_inet6")
GLOBAL_SCOPE = "00"
SIOCGIFADDR = 0x8915
"""Linux's request for the IPv4 address of an interface."""


class Certified(NamedTuple):
    """The broker's certificate and key, and the host that processes of this machine connect to: the certificate has it.

    The key is a secret; here is only where it is.
    """

    certificate: Path
    key: Path
    host: str


def certify(options: UpOptions, site: Site, directory: Path, now: float) -> Certified | None:
    """Write the certificates into the site's directory; None if connections are not encrypted.

    ``ca.pem`` is there afterwards only if clients need it.

    Raises:
        Refused: ``bad_certificate``, ``bad_path``: the files that were given can't be used.
    """
    if not options.is_encrypted:
        _keep_only(directory)
        return None
    if options.tls.cert is not None:
        return _given(options, options.tls.cert, directory)
    from rankd.identity.authority import issue  # noqa: PLC0415 - cryptography, which only this needs

    issued = issue(site.authority_seed(), own_names(options.listen, options.tls_names), now)
    for name, text in ((KEY_FILE, issued.key), (CERTIFICATE_FILE, issued.certificate), (CA_FILE, issued.ca)):
        write_private(directory / name, text)
    return Certified(directory / CERTIFICATE_FILE, directory / KEY_FILE, reached(options.listen))


def _given(options: UpOptions, certificate: Path, directory: Path) -> Certified:
    """Check the administrator's files, since the server would only end with a line in its log."""
    from rankd.identity.authority import names_in  # noqa: PLC0415 - as above

    certificate, key = certificate.absolute(), (options.tls.key or certificate).absolute()
    Encryption("tls://localhost", TlsFiles(options.tls.ca, certificate, key)).context()
    with usable(certificate, "tls_cert"):
        names = names_in(certificate)
    if options.tls.ca is None:
        _keep_only(directory)
    else:
        _keep_only(directory, CA_FILE)
        with usable(options.tls.ca, "ca"):
            write_private(directory / CA_FILE, certificates_in(options.tls.ca.read_text(errors="replace")))
    return Certified(certificate, key, _local_host(certificate, names, options.listen))


def _keep_only(directory: Path, *kept: str) -> None:
    for name in {CA_FILE, CERTIFICATE_FILE, KEY_FILE}.difference(kept):
        (directory / name).unlink(missing_ok=True)


def own_names(listen: str, more: Sequence[str] = ()) -> list[str]:
    """The names and addresses by which others reach a broker that listens on this address."""
    node = os.uname().nodename
    names = [*more, node, node.partition(".")[0]]
    names += _addresses() if _is_unspecified(listen) else [listen]
    return list(dict.fromkeys(name for name in (*names, *LOOPBACK) if name in more or _can_be_named(name)))


def _is_unspecified(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False


def _can_be_named(name: str) -> bool:
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _addresses() -> Iterator[str]:
    """The addresses of this machine's interfaces; of IPv6 those that other machines can use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                answer = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                yield socket.inet_ntoa(answer[20:24])
    with suppress(OSError):
        for line in IPV6_ADDRESSES.read_text(encoding="ascii").splitlines():
            digits, _, _, scope, *_ = line.split()
            if scope == GLOBAL_SCOPE:
                yield str(ipaddress.IPv6Address(bytes.fromhex(digits)))


def _local_host(certificate: Path, names: Sequence[str], listen: str) -> str:
    """A name of the certificate that leads to the broker on this machine.

    Raises:
        Refused: ``bad_certificate``: none does.
    """
    for name in (reached(listen), *LOOPBACK, *names):
        if name in names and _leads_to(name, listen):
            return name
    message = f"the certificate in {certificate} is for {', '.join(names) or 'no host'}, and none of these leads to"
    message += f" {listen} on this machine; let one of them do so in /etc/hosts, or get a certificate with another name"
    raise Refused("bad_certificate", message, "tls_cert")


def _leads_to(name: str, listen: str) -> bool:
    wanted = set(_resolved(listen))
    return any(_is_own(address) and (address in wanted or _is_unspecified(listen)) for address in _resolved(name))


def _resolved(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in found]


def _is_own(address: str) -> bool:
    """Whether this machine has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.bind((address, 0))
        return True
    return False
