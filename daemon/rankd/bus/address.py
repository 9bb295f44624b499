"""Parses the broker's URL, ``nats://[user:password@]host[:port]``. Imports no NATS, because the command line uses it.

Brokers of a cluster are one text: their URLs with commas between them. Every function here refuses an invalid address.
Every command and service calls one of them before it connects, so all of them refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from rankd.core.errors import Refused
from rankd.core.printable import printable

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEMES = ("nats", "tls")
"""The schemes that nats-py supports without further packages."""
MOST_URLS = 16
"""The most brokers in an address."""


def urls_in(address: str) -> list[str]:
    """The URLs of the brokers, one for each.

    >>> urls_in("nats://a:4222,nats://b:4222")
    ['nats://a:4222', 'nats://b:4222']

    Raises:
        Refused: ``usage``: these are not URLs of brokers, or there are more than :data:`MOST_URLS`.
    """
    urls = address.split(",")
    if wrong := _fault_of_list(urls):
        raise _refused(address, wrong)
    return urls


def user_in(url: str) -> str | None:
    """The user that connects; None if the URL has no password (a name alone is a token).

    All brokers of a cluster know the same users, so that the first URL says it.

    >>> user_in("nats://alice:secret@broker:4222")
    'alice'

    Raises:
        Refused: ``usage``: this is not the URL of a broker.
    """
    return _user_of(_split(urls_in(url)[0]))


def _user_of(parts: SplitResult) -> str | None:
    return unquote(parts.username) if parts.username and parts.password is not None else None


def without_secret(url: str) -> str:
    """The URL without its user and password, for messages, logs and files.

    >>> without_secret("nats://alice:secret@broker:4222")
    'nats://broker:4222'

    Raises:
        Refused: ``usage``: this is not the URL of a broker.
    """
    parts = (_split(one) for one in urls_in(url))
    return ",".join(urlunsplit(one._replace(netloc=one.netloc.rpartition("@")[2])) for one in parts)


def host_in(url: str) -> str:
    """The host that the (first) URL names, an IPv6 address without brackets.

    >>> host_in("tls://[fd00::1]:4222")
    'fd00::1'

    Raises:
        Refused: ``usage``: this is not the URL of a broker.
    """
    return _split(urls_in(url)[0]).hostname or ""


def is_encrypted(url: str) -> bool:
    """Whether a URL demands encrypted connections. One of several demands it for all of them.

    >>> is_encrypted("tls://broker:4222"), is_encrypted("nats://broker:4222")
    (True, False)

    Raises:
        Refused: ``usage``: this is not the URL of a broker.
    """
    return any(_split(one).scheme == "tls" for one in urls_in(url))


def _refused(address: str, wrong: str) -> Refused:
    scheme, separator, rest = address.rpartition("://")
    if "@" in address and "," in address:
        scheme = separator = ""  # a comma may be in a password
    shown = printable(scheme + separator + rest.rpartition("@")[2])  # a message must not contain a password
    message = f"'{shown}' is not the URL of a broker: {wrong}; write nats://HOST:4222"
    if "," in address:
        message += ", with a comma between several, and a comma of a password as %2C"
    return Refused("usage", message, "nats")


def _split(url: str) -> SplitResult:
    """Split a URL. As nats-py does, accepts a host without a scheme."""
    return urlsplit(url if "://" in url else f"nats://{url}")


def _fault_of_list(urls: list[str]) -> str | None:
    """What is wrong with the URLs; None if they can be used."""
    if len(urls) > MOST_URLS:
        return f"these are {len(urls)} brokers, and at most {MOST_URLS} are possible"
    if wrong := next(filter(None, map(_fault, urls)), None):
        return wrong
    users = {_user_of(_split(url)) for url in urls}
    return None if len(users) == 1 else "all have to name the same user, or none"


def _fault(url: str) -> str | None:
    """What is wrong with the URL; None if it can be used."""
    if not url.isprintable() or " " in url:
        return "it has a blank or a control character"
    try:
        parts = _split(url)
    except ValueError as error:
        return str(error)
    if parts.scheme not in SCHEMES:
        return f"it begins with {parts.scheme}://"
    if "@" in (more := f"{parts.path}{parts.query}{parts.fragment}"):
        return "write characters such as / ? # of a password as %2F %3F %23"
    try:
        port = parts.port
    except ValueError:
        return "the port has to be a number from 1 to 65535, and an IPv6 address is written in brackets"
    return _fault_of_host(parts.hostname, port) or ("something follows the port" if more.strip("/") else None)


def _fault_of_host(host: str | None, port: int | None) -> str | None:
    if not host:
        return "it names no host"
    if port == 0:
        return "the port has to be a number from 1 to 65535"
    try:
        host.encode("idna")
    except UnicodeError:
        return f"'{host}' is not a host's name"
    return None
