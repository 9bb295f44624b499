"""What the watcher tells its agent: one JSON document per line, each the result of one look at all devices."""

from __future__ import annotations

import msgspec

from rankd.core.model.device import Device

TREE = "sys/class/kfd/kfd"
"""Where the driver of AMD's cards publishes them."""
NOTHING = 3
"""The exit status of a watcher on a machine without cards."""
MOST_DEVICES = 128
MOST_PROCESSES = 64
LONGEST_FAULT = 200
LONGEST_LINE = 2 * 2**20


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One device at one look.

    ``paths``: its device files; several devices may share one. ``busy``: its utilisation from 0 to 1; None if it can't
    be read, as for parts of a card. ``memory_used``: bytes. ``pids``: the processes that compute on it. ``fault``: an
    error since the watcher started that makes it unfit for jobs. ``problem``: why it can't be read at present.
    """

    device: Device
    paths: list[str] = []
    busy: float | None = None
    memory_used: int | None = None
    pids: list[int] = []
    fault: str | None = None
    problem: str | None = None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of this machine. ``problem``: why those of a vendor can't be found; None if all could be."""

    devices: list[Seen]
    problem: str | None = None


_encoder = msgspec.json.Encoder()
read_look = msgspec.json.Decoder(Look).decode


def line(look: Look) -> bytes:
    """A look as a line: encoded JSON contains no line break."""
    return _encoder.encode(look) + b"\n"
