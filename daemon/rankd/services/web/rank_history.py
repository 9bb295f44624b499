"""Takes samples of the ranking, and shows a job's part of them as a chart."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from rankd.bus.outage import Spell
from rankd.core.errors import RankdError
from rankd.services.web.page import Page
from rankd.services.web.rank_memory import RankMemory
from rankd.store.look.web.look import NOBODY
from rankd.store.look.web.site import PLACES

log = logging.getLogger("rankd.web")

LOOK_S = 1.0


async def remember_ranks(page: Page) -> None:
    """Take samples until cancelled."""
    spell = Spell(log)
    while True:
        if page.live.newest is not None and page.live.newest.generation and page.ranks.is_due(page.clock()):
            try:
                places = await page.look(PLACES, NOBODY, {})
                page.ranks.note(page.clock(), places)
                spell.over("ranks can be read again")
            except RankdError as error:
                spell.note(f"ranks can't be read: {error.message}", "ranks still can't be read")
        await asyncio.sleep(LOOK_S)


def rank_chart(memory: RankMemory, job: int, rank: int | None, now: float) -> dict[str, Any]:
    """What a job's page shows: the chart, if there are two points; since when ranks were seen; how often this one.

    ``rank``: the present one.
    """
    points = memory.of(job)
    if rank is not None and (not points or points[-1][1] != rank):
        points.append((now, rank))
    values = [[at for at, _ in points], [place for _, place in points]]
    chart = json.dumps({"names": ["rank"], "values": values, "is_down": True}) if len(points) > 1 else ""
    return {"chart": chart, "since": memory.since, "points": len(points)}
