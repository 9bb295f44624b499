"""Configurations of three or more NATS servers that form a cluster and know a site's accounts.

They encrypt all connections with certificates of the site's CA. Brokers let each other in by these certificates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.services.up.broker import MAX_PAYLOAD, MAX_PENDING, Trust, quoted

CLIENT_PORT, ROUTE_PORT = 4222, 6222
SIZES = (3, 5)
CONFIGURATION, CERTIFICATE, KEY, CA = "server.conf", "broker.pem", "broker.key", "ca.pem"
_FORM = re.compile(
    r"(?P<name>[A-Za-z0-9_-]{1,32})=(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5})(?::(?P<route>\d{1,5}))?)?"
)

_TEXT = """\
# written by `rankd auth brokers`
server_name: {name}
host: {host}
port: {port}
max_payload: {max_payload}
max_pending: {max_pending}
# a client or broker whose network is away is known after 6 s: until then, it gets its share of the requests
ping_interval: "2s"
ping_max: 2
tls {{
  cert_file: {certificate}
  key_file: {key}
  min_version: "1.3"
  timeout: 10
}}
cluster {{
  name: rankd
  host: {host}
  port: {route}
  routes: [{routes}]
  tls {{
    cert_file: {certificate}
    key_file: {key}
    ca_file: {ca}
    verify: true            # only brokers with a certificate of this site's CA
    timeout: 10
  }}
}}
jetstream {{
  store_dir: {store}
  sync_interval: always     # an acknowledged message is on the disk
  max_file_store: 64GB
}}
operator: {operator}
system_account: {system}
resolver {{
  type: full                # each broker keeps the accounts that it is given; nothing is restarted for a new user
  dir: {accounts}
  allow_delete: true
  interval: "2s"            # a broker that was away gets what it missed from the others
}}
resolver_preload {{
{preloaded}
}}
"""


class Member(NamedTuple):
    """One broker: its name, the host under which others reach it, its port for clients and the one for brokers."""

    name: str
    host: str
    port: int = CLIENT_PORT
    route: int = ROUTE_PORT

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"tls://{self.host}:{self.port}"


def read_member(text: str) -> Member:
    """``NAME=HOST``, ``NAME=HOST:PORT`` or ``NAME=HOST:PORT:ROUTE_PORT``.

    Raises:
        Refused: ``usage``.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise Refused("usage", f"'{text}' is not a broker; write NAME=HOST, or NAME=HOST:PORT:ROUTE_PORT", "broker")
    return Member(found["name"], found["host"], int(found["port"] or CLIENT_PORT), int(found["route"] or ROUTE_PORT))


def check_members(members: Sequence[Member]) -> None:
    """Check that brokers can form a cluster.

    Raises:
        Refused: ``usage``: there are not 3 or 5, or two have one name or one address.
    """
    if len(members) not in SIZES:
        raise Refused("usage", f"{len(members)} brokers are no cluster that survives a loss: name 3 or 5", "broker")
    if len({one.name for one in members}) < len(members):
        raise Refused("usage", "two brokers have the same name; give each its own", "broker")
    ports = [(one.host, port) for one in members for port in (one.port, one.route)]
    if len(set(ports)) < len(ports):
        raise Refused("usage", "two brokers have the same host and port; give each its own", "broker")


def configuration(member: Member, members: Sequence[Member], trust: Trust, directory: Path) -> str:
    """The configuration of one broker, whose files are in ``directory`` on its machine."""
    accounts = (trust.system, *trust.accounts)
    return _TEXT.format(
        name=member.name,
        host=quoted(member.host.strip("[]")),
        port=member.port,
        route=member.route,
        routes=", ".join(quoted(f"tls://{one.host}:{one.route}") for one in members),
        max_payload=MAX_PAYLOAD,
        max_pending=MAX_PENDING,
        certificate=quoted(str(directory / CERTIFICATE)),
        key=quoted(str(directory / KEY)),
        ca=quoted(str(directory / CA)),
        store=quoted(str(directory / "jetstream")),
        accounts=quoted(str(directory / "accounts")),
        operator=trust.operator,
        system=trust.system.public,
        preloaded="\n".join(f"  {account.public}: {account.token}" for account in accounts),
    )
