"""A job: why it is where it is, in words and numbers; its history; its tasks, if it is an array."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from rankd.core.admission.privacy import Row
from rankd.core.admission.submitter import Submitter
from rankd.core.session.step_word import state_of
from rankd.core.words import DECISIONS, OVERRIDES
from rankd.services.web.bar import extent
from rankd.services.web.page import Page
from rankd.services.web.rank_history import rank_chart
from rankd.services.web.silence import silent
from rankd.services.web.time_line import attempts, time_line, waits
from rankd.services.web.view import Given
from rankd.store.look.web.job import FORMS, JOB, WHY

LOG_FIELDS: tuple[str, ...] = ("stream", "attempt", "node")
ATTEMPTS = 50
"""The last attempts, which are listed."""
SIDES = (("above", "Just above"), ("above_other", "The next above of another user"), ("below", "Just below"))


async def job(page: Page, asker: Submitter, given: Given) -> str:
    """All about one job."""
    found = await page.look(JOB, asker, given)
    why, now = found.why, page.clock()
    bars = extent([why] if why and why.get("factors") else [])
    line = time_line(found.events, now)
    rank = None if why is None else why.get("rank")
    return page.template.render(
        "_job.html", **found._asdict(), silent=silent(found.services, now), line=line, overrides=OVERRIDES,
        between=bars, attempts=attempts(found.events, line), waits=waits(found.waited, line), sides=_sides(why),
        most_attempts=ATTEMPTS,
        ranks=rank_chart(page.ranks, found.job["id"], rank, now),
        steps=[(step, state_of(step)) for step in found.job.get("steps") or ()],
    )  # fmt: skip


async def why(page: Page, asker: Submitter, given: Given) -> str:
    """What separates a job from its neighbours, for the panel of the queue."""
    found = await page.look(WHY, asker, given)
    return page.template.render(
        "_why.html",
        why=found,
        sides=_sides(found),
        overrides=OVERRIDES,
        between=extent([found] if found.get("factors") else []),
    )


def _sides(why: Row | None) -> list[dict[str, Any]]:
    """The neighbours of a job in the ranking, each with why one of the two goes first."""
    found = list[dict[str, Any]]()
    for side, words in SIDES:
        other = None if why is None else why.get(side)
        if why is None or other is None or other.get("gone"):
            continue
        first = why if side == "below" else other
        decided, override = other["decided_by"], first.get("override")
        if decided == "override" and override in OVERRIDES:
            reason = OVERRIDES[str(override)]
        else:
            reason = DECISIONS["priority" if decided == "override" else decided]
        gaps = [(name, points) for name, points in (other.get("parts") or {}).items() if abs(points) >= 0.005]
        found.append({"words": words, "other": other, "first": first["id"], "reason": reason, "gaps": gaps})
    return found


async def forms(page: Page, asker: Submitter, given: Given) -> dict[str, Any]:
    """The job as it is when its page is loaded: which forms make sense."""
    found = await page.look(FORMS, asker, given)
    wanted: dict[str, str] = {field: given[field] for field in LOG_FIELDS if field in given}
    return {"job": found, "log_query": urlencode(wanted)}
