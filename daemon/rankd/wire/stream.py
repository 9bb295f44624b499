"""Messages about the broker's streams: the verbs ``stream.check`` and ``stream.rebuild``."""

from __future__ import annotations

import msgspec

from rankd.wire.diag import StreamDiag


class StreamsAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request of ``stream.check``."""


class StreamsChecked(msgspec.Struct, frozen=True, kw_only=True):
    """The streams as they are now. ``problems``: where they differ from the configuration and the database."""

    streams: list[StreamDiag]
    problems: list[str]


class RebuildAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``lose_enqueued``: also if submissions wait in their stream, or may wait in one that can't be read."""

    lose_enqueued: bool = False


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """``events`` and ``letters`` are published again. ``lost``: enqueued submissions; None: not known how many."""

    events: int
    letters: int
    lost: int | None = 0
