"""Reports: answers that take seconds or are too large for a message. They are computed separately, sent in parts."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Kind = Literal["dump", "replay", "gap", "whatif", "reload", "configurations"]


Rank = Annotated[int, Meta(ge=0, le=2**53)]
"""The priority of a QoS."""
Offset = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""The offset of a queue, or the value of a class."""


class ReportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to compute: as ``dump``, ``replay``, ``why --gap``, ``whatif``, ``reload --dry-run`` or ``config history``.

    ``at`` is for dump and replay: the number of a generation, or UTC seconds behind ``@``. ``job`` is for gap;
    ``weights``, ``classes`` (values), ``qos`` (priorities), ``offsets`` (of queues, by their paths), ``submit`` (a job
    or jobs as JSON) and ``files`` (texts of another configuration, for administrators) are for whatif; ``limit`` is for
    reload and configurations. ``text``: reload as the command prints it. ``summary``: whatif without the single jobs.
    """

    kind: Kind
    at: str | None = None
    job: int | None = None
    weights: dict[str, float] = {}
    classes: dict[str, Offset] = {}
    qos: dict[str, Rank] = {}
    offsets: dict[str, Offset] = {}
    submit: str | None = None
    files: dict[str, str] | None = None
    limit: int = 20
    text: bool = False
    summary: bool = False


class ReportMade(msgspec.Struct, frozen=True, kw_only=True):
    """The report is being computed. The same asker requests its parts under this name."""

    report: str


class ReportPartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request for one part, counted from 0."""

    report: str
    part: int = 0


class ReportPart(msgspec.Struct, frozen=True, kw_only=True):
    """``parts`` None: it is not ready yet, ask again. ``data`` is base64 in JSON. ``notes`` are messages for people."""

    parts: int | None = None
    data: bytes = b""
    notes: list[str] = []
