"""Reports: answers that take seconds to compute or are too large for a message, made aside and fetched in parts."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["dump", "gap", "whatif", "reload", "configurations"]

FOR_ADMINISTRATORS = frozenset({"dump", "reload", "configurations"})
"""They show the configuration's texts, or the whole state."""


class ReportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to compute: that of ``rankd dump``, ``why JOB --gap``, ``whatif``, ``reload --dry-run``, ``config history``.

    ``job`` of gap; ``weights``, ``submit`` (a job or jobs as JSON) and ``files`` (texts of another configuration, for
    administrators) of whatif; ``limit`` of reload and configurations. ``text``: reload as the command prints it.
    """

    kind: Kind
    job: int | None = None
    weights: dict[str, float] = {}
    submit: str | None = None
    files: dict[str, str] | None = None
    limit: int = 20
    text: bool = False


class ReportMade(msgspec.Struct, frozen=True, kw_only=True):
    """It is being computed; its parts are asked for under this name, by the same asker."""

    report: str


class ReportPartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part, from 0."""

    report: str
    part: int = 0


class ReportPart(msgspec.Struct, frozen=True, kw_only=True):
    """``parts`` None: it is not ready yet, ask again. ``data`` is base64 in JSON. ``notes`` are for people."""

    parts: int | None = None
    data: bytes = b""
    notes: list[str] = []
