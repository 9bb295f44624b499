"""Services: who is active, passes and cycles, streams, adapters, failing plugins, configurations that were in force."""

from __future__ import annotations

import json
from typing import Any

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError
from rankd.services.web.page import Page
from rankd.services.web.silence import SILENT_S
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.service_list import services as service_list
from rankd.store.look.service_past import adapter_readings, last_configurations, last_generations

PASSES = 120
CONFIGURATIONS = 15
SHOWN_CHANGES = 5


async def services(page: Page, asker: Submitter, _given: Given) -> str:
    """All of it. What services say of themselves comes over the bus, the rest from the records."""
    found = await page.look(_read)
    diag, problem = None, None
    if asker.user:
        try:
            diag = await page.diag(asker.user)
        except RankdError as error:
            problem = error.message
    return page.template.render(
        "_services.html", **found, diag=diag, problem=problem, chart=_chart(found["passes"]), silent_s=SILENT_S,
        tabs=page.live.tabs,
    )  # fmt: skip


def _read(reader: Reader) -> dict[str, Any]:
    alive, past = service_list(reader), last_configurations(reader, CONFIGURATIONS)
    return {
        "services": alive["services"],
        "silent": alive["nodes"],
        "passes": last_generations(reader, PASSES),
        "configurations": [row | {"changes": _changes(row["changes"])} for row in past],
        "adapters": adapter_readings(reader),
    }


def _changes(text: str | list[Row]) -> list[str]:
    """What changed, one line each."""
    changes = json.loads(text) if isinstance(text, str) else text
    return [f"{one.get('file')}: {one.get('key')} = {one.get('new')}" for one in changes[:SHOWN_CHANGES]]


def _chart(passes: list[Row]) -> str:
    """Durations of full passes by phase in milliseconds, as the chart takes them: times, then one list per phase."""
    full = [row for row in passes if row["kind"] == "full" and isinstance(row["durations"], dict)]
    names = sorted({name for row in full for name in row["durations"]})
    values = [[row["ranked_at"] for row in full]]
    values += [[round(1000 * row["durations"].get(name, 0.0), 3) for row in full] for name in names]
    return json.dumps({"names": [f"{name} (ms)" for name in names], "values": values}) if len(full) > 1 else ""
