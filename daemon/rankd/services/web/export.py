"""What the page exports: its tabs, the figures of the site from the records, and those that the services answer."""

from __future__ import annotations

from contextlib import AsyncExitStack

from rankd.bus.connection import Bus
from rankd.core.metric.figure import Figure
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.site import RecordFigures, ServiceFigures
from rankd.services.web.page import Page
from rankd.wire.subject import MEASURED


def export(exported: Exported, page: Page, bus: Bus, database: str, stack: AsyncExitStack) -> None:
    """Export all of it."""
    records = RecordFigures(database, page.clock)
    stack.callback(records.close)
    exported.bus(bus)
    exported.add(lambda: [Figure("rankd_web_tabs", page.live.tabs)])
    exported.collect(records.read)
    exported.collect(ServiceFigures(bus, MEASURED).read)
