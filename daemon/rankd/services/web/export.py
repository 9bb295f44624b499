"""``/metrics`` of the page: its tabs, the figures of the site from the records, and what the services answer."""

from __future__ import annotations

from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rankd.bus.connection import Bus
from rankd.core.metric.figure import Figure
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.exposition import check_installed, rendered
from rankd.services.runtime.metric.listener import AGE_S
from rankd.services.runtime.metric.scrape import Shared
from rankd.services.runtime.metric.site import RecordFigures, ServiceFigures
from rankd.services.web.page import NotSignedIn, Page
from rankd.services.web.visitor import may_read_metrics
from rankd.wire.subject import MEASURED, RECORDS


def export(exported: Exported, page: Page, bus: Bus, database: str | None, stack: AsyncExitStack) -> None:
    """Export all of it. Without a database, the intake answers with the figures of the records."""
    exported.bus(bus)
    exported.add(lambda: [Figure("rankd_web_tabs", page.live.tabs)])
    if database is not None:
        records = RecordFigures(database, page.clock)
        stack.callback(records.close)
        exported.collect(records.read)
    exported.collect(ServiceFigures(bus, MEASURED if database is not None else (*MEASURED, RECORDS)).read)
    page.scrape = Shared(exported.all, AGE_S)


async def show_metrics(page: Page, request: Request) -> Response:
    """``/metrics``, for who may read it (:func:`.may_read_metrics`)."""
    try:
        visitor = page.who(request)
    except NotSignedIn:
        visitor = None
    address = "" if request.client is None else request.client.host
    if page.scrape is None or not may_read_metrics(address, page.settings.web, visitor, is_local=page.site.is_local):
        message = f"metrics are not for {address}: sign in, or list it in [web] metrics of rankd.toml\n"
        return PlainTextResponse(message, 403)
    check_installed()
    text = rendered(await page.scrape.get(), request.headers.get("accept", ""))
    return Response(text.body, headers={"Content-Type": text.content_type})
