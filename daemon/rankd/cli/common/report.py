"""Reports over the bus. The intake computes them from the whole state, and the command fetches them in parts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankd.cli.common.place import find
from rankd.client.place import Place
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.bus.connection import Bus
    from rankd.wire.report import ReportRequest


def over_bus(arguments: argparse.Namespace) -> Place | None:
    """The place to ask for reports. None if they are computed here from the database.

    Raises:
        Refused: ``usage``: ``--live-config`` was given, which can't be used over the bus.
    """
    place = find(arguments)
    if not place.uses_bus:
        return None
    if getattr(arguments, "live_config", None) is not None:
        message = f"the services' configuration is read from a database: give --db FILE, not a broker ({place.reason})"
        raise Refused("usage", message, "live_config")
    return place


def fetch_report(place: Place, arguments: argparse.Namespace, request: ReportRequest) -> bytes:
    """The report as the service wrote it. Its notes go to standard error.

    Raises:
        Refused, Unavailable: there is no report. The message has the reason.
    """
    from rankd.cli.common.session import asker
    from rankd.client.session import with_bus
    from rankd.wire.encoding import encode
    from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest

    who = asker(arguments)

    async def action(bus: Bus) -> bytes:
        made = await bus.request(who.subject("report.make"), encode(request), ReportMade)
        parts, total = list[bytes](), None
        while total is None or len(parts) < total:
            wanted = ReportPartRequest(report=made.report, part=len(parts))
            answer = await bus.request(who.subject("report.part"), encode(wanted), ReportPart)
            if answer.parts is None:
                continue
            total = answer.parts
            parts.append(answer.data)
            for note in answer.notes:
                print(f"rankd: {note}", file=sys.stderr)
        return b"".join(parts)

    return with_bus(place, action)
