"""Services: who is active, passes and cycles, streams, adapters, failing plugins, configurations that were in force."""

from __future__ import annotations

import json

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError
from rankd.services.web.page import Page
from rankd.services.web.silence import SILENT_S
from rankd.services.web.view import Given
from rankd.store.engine.reading import Row
from rankd.store.look.web.services import SERVICES


async def services(page: Page, asker: Submitter, given: Given) -> str:
    """All of it. What services say of themselves comes over the bus, the rest from the records."""
    found = await page.look(SERVICES, asker, given)
    diag, problem = None, None
    if asker.user:
        try:
            diag = await page.diag(asker.user)
        except RankdError as error:
            problem = error.message
    return page.template.render(
        "_services.html", **found._asdict(), diag=diag, problem=problem, chart=_chart(found.passes), silent_s=SILENT_S,
        tabs=page.live.tabs,
    )  # fmt: skip


def _chart(passes: list[Row]) -> str:
    """Durations of full passes by phase in milliseconds, as the chart takes them: times, then one list per phase."""
    full = [row for row in passes if row["kind"] == "full" and isinstance(row["durations"], dict)]
    names = sorted({name for row in full for name in row["durations"]})
    values = [[row["ranked_at"] for row in full]]
    values += [[round(1000 * row["durations"].get(name, 0.0), 3) for row in full] for name in names]
    return json.dumps({"names": [f"{name} (ms)" for name in names], "values": values}) if len(full) > 1 else ""
