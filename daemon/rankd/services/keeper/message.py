"""The messages between the agent and its keeper: one JSON document per line on a socket in the state directory.

They are tagged structs. Unknown fields of newer versions are ignored, since a keeper may be older than its agent.
"""

from __future__ import annotations

import msgspec

from rankd.services.keeper.proc import Launch
from rankd.wire.message import Report

LONGEST_LINE = 16 * 2**20
SOCKET = "keeper.socket"


class KeepJob(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Start this job and keep it until it ends. Ignored if the allocation was started before."""

    allocation: int
    job: int
    plan: Launch
    time_limit_s: float | None
    grace_s: float


class EndJob(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Send TERM to all of the job's processes, and KILL after the grace time."""

    allocation: int
    cause: str
    grace_s: float


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """Asks for a :class:`Pong`. Only for a keeper whose :class:`Hello` has ``pongs``."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The keeper's first message: the jobs that it holds, ends that it could not write down, and what it can limit."""

    pid: int
    running: list[int]
    started: list[Report]
    unwritten: list[Report]
    limits: str
    pongs: bool = False
    """Whether it answers a :class:`Ping`. Keepers of older versions do not."""
    confines: bool = False
    """Whether it keeps jobs from devices that are not theirs. Keepers of older versions do not."""
    confinement: str = "jobs are NOT kept from devices of other jobs (their keeper is of an older version)"


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag="happened"):
    """A start or an end. An end is already in the state directory."""

    report: Report


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong"):
    """The answer to a :class:`Ping`."""


Ask = KeepJob | EndJob | Ping
Tell = Hello | Happened | Pong

_encoder = msgspec.json.Encoder()
read_ask = msgspec.json.Decoder(Ask).decode
read_tell = msgspec.json.Decoder(Tell).decode


def line(message: msgspec.Struct) -> bytes:
    """A message as a line for the socket: encoded JSON contains no line break."""
    return _encoder.encode(message) + b"\n"
