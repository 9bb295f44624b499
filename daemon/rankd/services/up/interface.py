"""What the starter of ``up`` tells it and hears from it: the content of ``up.json``, events, reports."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec


class Up(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``up.json``. ``listen``: where the embedded broker listens; None with another broker.

    ``ca``, ``tls_cert`` and ``tls_key`` are files for encrypted connections, None where none is needed.
    """

    nats: str
    creds: str | None
    ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    login: str | None
    db: str
    pids: dict[str, int]
    ready: bool
    config: str
    pid: int
    listen: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Events that somebody outside sets: stop; stop at once; read the configuration again (the intake gets SIGHUP)."""

    stop: asyncio.Event
    hurry: asyncio.Event
    hangup: asyncio.Event


class Tell(Protocol):
    """What ``up`` reports: that all services answer; how many jobs run when it stops, and their grace time."""

    def ready(self, state: Up) -> None:
        """Report that all services answer."""

    def waiting(self, service: str, verdict: str) -> None:
        """Report that this service is not ready yet; ``verdict`` is the text of its health."""

    def stopping(self, running: int, grace_s: float) -> None:
        """Report that this many jobs run on this machine; they are now ended, or kept."""
