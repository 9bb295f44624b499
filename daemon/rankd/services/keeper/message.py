"""What the agent and its keeper say to each other: one JSON document per line on a socket in the state directory.

Tagged structs; fields of newer versions are tolerated, since a keeper may be older than its agent.
"""

from __future__ import annotations

import msgspec

from rankd.services.keeper.proc import Launch
from rankd.wire.message import Report

LONGEST_LINE = 16 * 2**20
SOCKET = "keeper.socket"


class KeepJob(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Start this and keep it until it ends; nothing where the allocation was started before."""

    allocation: int
    job: int
    plan: Launch
    time_limit_s: float | None
    grace_s: float


class EndJob(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """TERM to all of its processes, and KILL after the grace."""

    allocation: int
    cause: str
    grace_s: float


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """Say whether you are well. Only for a keeper whose :class:`Hello` has ``pongs``."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The keeper's first words: what it keeps, ends that it could not write down, what it can limit."""

    pid: int
    running: list[int]
    started: list[Report]
    unwritten: list[Report]
    limits: str
    pongs: bool = False
    """Whether it answers a :class:`Ping`. Keepers of older versions do not know it."""


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag="happened"):
    """A start or an end; an end is in the state directory by now."""

    report: Report


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong"):
    """The answer to a :class:`Ping`."""


Ask = KeepJob | EndJob | Ping
Tell = Hello | Happened | Pong

_encoder = msgspec.json.Encoder()
read_ask = msgspec.json.Decoder(Ask).decode
read_tell = msgspec.json.Decoder(Tell).decode


def line(message: msgspec.Struct) -> bytes:
    """As it goes over the socket: JSON has no line break of its own."""
    return _encoder.encode(message) + b"\n"
